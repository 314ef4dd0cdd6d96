"""vLLM's /metrics in kvlab's words, V0 to 0.33. Engines of one server have pools of their own."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from kvlab.core.engine import MetricMap
from kvlab.core.exposition import Sample, samples

_SUMMED = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "preemptions_total": ("vllm:num_preemptions_total",),
    "prefix_queries_tokens_total": ("vllm:prefix_cache_queries_total",),
    "prefix_hits_tokens_total": ("vllm:prefix_cache_hits_total",),
    "prompt_tokens_total": ("vllm:prompt_tokens_total",),
    "generation_tokens_total": ("vllm:generation_tokens_total",),
}
# gpu_prefix_cache_* (to 0.9.1) counted blocks at first and tokens later; their HELP text says which.
_OLD_PREFIX = {
    "prefix_queries_tokens_total": "vllm:gpu_prefix_cache_queries_total",
    "prefix_hits_tokens_total": "vllm:gpu_prefix_cache_hits_total",
}
# Renamed in 0.9.2; the newest name first.
_USE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
# Labels of cache_config_info (kv_cache_* since 0.28): the engine's own exact capacity.
_CAPACITY = {
    "kv_tokens": "kv_cache_size_tokens",
    "max_concurrency": "kv_cache_max_concurrency",
    "num_gpu_blocks": "num_gpu_blocks",
    "block_size": "block_size",
}


def _read(pages: Mapping[str, str]) -> dict[str, float]:
    if "/metrics" not in pages:
        return {}
    found = [sample for sample in samples(pages["/metrics"]) if not math.isnan(sample.value)]
    values = {}
    for word, names in _SUMMED.items():
        if rows := _first(found, names):
            values[word] = sum(row.value for row in rows)
    if rows := _first(found, _USE):
        values["kv_used_ratio"] = max(row.value for row in rows)
    values |= _capacity(_first(found, ("vllm:cache_config_info",)))
    for word, name in _OLD_PREFIX.items():
        rows, unit = _first(found, (name,)), _unit(pages["/metrics"], name, values.get("block_size"))
        if word not in values and rows and unit:
            values[word] = unit * sum(row.value for row in rows)
    return values


def _unit(page: str, name: str, block_size: float | None) -> float | None:
    """Tokens per count of an old prefix counter; None when the page does not settle it."""
    told = re.search(rf"^# HELP {name.removesuffix('_total')}(?:_total)? (.*)$", page, re.MULTILINE)
    if told is None:
        return None
    return block_size if "blocks" in told.group(1) else 1.0


def _first(found: list[Sample], names: tuple[str, ...]) -> list[Sample]:
    """Samples of the first name that is there at all."""
    for name in names:
        if rows := [sample for sample in found if sample.name == name]:
            return rows
    return []


def _capacity(rows: list[Sample]) -> dict[str, float]:
    """What one engine's pool holds; the smallest when engines differ."""
    values = {}
    for word, label in _CAPACITY.items():
        stated = [_number(row.labels.get(label, "")) for row in rows]
        numbers = [number for number in stated if number is not None]
        if numbers:
            values[word] = min(numbers)
    return values


def _number(text: str) -> float | None:
    """A label that is a number; "None" and an absent label are not."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


METRICS = MetricMap(prefix="vllm:", read=_read, paths=("/metrics",))
