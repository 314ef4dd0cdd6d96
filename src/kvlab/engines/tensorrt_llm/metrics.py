"""trtllm-serve's metrics in kvlab's words.

Prometheus text is at /prometheus/metrics (return_perf_metrics); /metrics is a JSON list of iterations that is emptied
by whoever reads it, so it is read only where it was saved. The first releases have few of the gauges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from kvlab.core.engine import MetricMap
from kvlab.core.errors import BadInput
from kvlab.core.exposition import Sample, samples

_PROMETHEUS = "/prometheus/metrics"
_ITERATIONS = "/metrics"
_SUMMED = {
    "trtllm_num_requests_running": "running",
    "trtllm_num_requests_waiting": "waiting",
    "trtllm_prompt_tokens_total": "prompt_tokens_total",
    "trtllm_generation_tokens_total": "generation_tokens_total",
    "trtllm_prompt_cached_tokens_total": "prefix_hits_tokens_total",
}
# Ranks of one server state the same cache: the fullest speaks.
_LARGEST = {
    "trtllm_kv_cache_utilization": "kv_used_ratio",
    "trtllm_kv_cache_max_blocks": "num_gpu_blocks",
    "trtllm_kv_cache_tokens_per_block": "block_size",
    "trtllm_kv_cache_used_blocks": "_used_blocks",
}


class _Cache(msgspec.Struct, rename="camel"):
    max_num_blocks: int | None = None
    used_num_blocks: int | None = None
    tokens_per_block: int | None = None


class _Iteration(msgspec.Struct, rename="camel"):
    num_active_requests: int | None = None
    num_queued_requests: int | None = None
    kv_cache_stats: _Cache | None = None


def _read(pages: Mapping[str, str]) -> dict[str, float]:
    found = _iterations(pages[_ITERATIONS]) if _ITERATIONS in pages else {}
    if _PROMETHEUS in pages:
        found |= _prometheus(pages[_PROMETHEUS])
    used = found.pop("_used_blocks", None)
    block, blocks = found.get("block_size"), found.get("num_gpu_blocks")
    if block is not None and blocks is not None:
        found["kv_tokens"] = block * blocks
    if block is not None and used is not None:
        found["kv_used_tokens"] = block * used
    if used is not None and blocks:
        found.setdefault("kv_used_ratio", used / blocks)
    if "prefix_hits_tokens_total" in found and "prompt_tokens_total" in found:
        found["prefix_queries_tokens_total"] = found["prompt_tokens_total"]
    return found


def _prometheus(page: str) -> dict[str, float]:
    rows = [sample for sample in samples(page) if not math.isnan(sample.value)]
    found = {word: sum(values) for name, word in _SUMMED.items() if (values := _values(rows, name))}
    return found | {word: max(values) for name, word in _LARGEST.items() if (values := _values(rows, name))}


def _values(rows: list[Sample], name: str) -> list[float]:
    return [row.value for row in rows if row.name == name]


def _iterations(page: str) -> dict[str, float]:
    """The newest iteration of a saved /metrics page; an empty list says nothing."""
    try:
        rows = msgspec.json.decode(page, type=list[_Iteration])
    except msgspec.DecodeError as error:
        raise BadInput(f"/metrics is not trtllm-serve's list of iterations: {error}") from None
    if not rows:
        return {}
    last, cache = rows[-1], rows[-1].kv_cache_stats or _Cache()
    stated = {
        "running": last.num_active_requests,
        "waiting": last.num_queued_requests,
        "num_gpu_blocks": cache.max_num_blocks,
        "block_size": cache.tokens_per_block,
        "_used_blocks": cache.used_num_blocks,
    }
    return {word: float(value) for word, value in stated.items() if value is not None}


METRICS = MetricMap(prefix="trtllm_", read=_read, paths=(_PROMETHEUS,))
