"""SGLang's /metrics, and its page about itself, in kvlab's words, 0.4.0 to 0.5.23.

Tensor-parallel ranks repeat one pool, DP-attention groups have one each. Totals are counted by the front end when a
request ends; token_usage counts live requests only, so a warm prefix cache does not show in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from kvlab.core.engine import MetricMap
from kvlab.core.exposition import Sample, samples

_PREFIX = "sglang:"
# Gauges of a pool or a scheduler: ranks of one group repeat them, groups add up.
_OF_GROUPS = {
    "running": ("num_running_reqs",),
    "waiting": ("num_queue_reqs",),
    "kv_used_tokens": ("kv_used_tokens", "num_used_tokens"),
    # a gauge of all retractions in 0.4.9 to 0.5.2; in between only histograms per request
    "preemptions_total": ("num_retracted_requests_total", "total_retracted_reqs"),
}
# Counters of the front end: label sets add up (cached tokens carry their source).
_TOTALS = {
    "prompt_tokens_total": ("prompt_tokens_total",),
    "generation_tokens_total": ("generation_tokens_total",),
    "prefix_hits_tokens_total": ("cached_tokens_total",),
}
# What each pool holds: the smallest decides.
_CAPACITY = {
    "kv_tokens": ("max_total_num_tokens",),
    "block_size": ("page_size",),
    "num_gpu_blocks": ("num_pages",),
}


_INFO = ("/server_info", "/get_server_info")
"""The second is the name up to 0.5.5, kept as a deprecated alias since."""


class _Info(msgspec.Struct):
    """The part of the server's own description that states its pool."""

    max_total_num_tokens: int | None = None
    page_size: int | None = None


def _read(pages: Mapping[str, str]) -> dict[str, float]:
    values = _described(next((pages[path] for path in _INFO if path in pages), None))
    return values | (_counted(pages["/metrics"]) if "/metrics" in pages else {})


def _described(page: str | None) -> dict[str, float]:
    """Capacity as the server describes itself: it is there without metrics too."""
    try:
        info = msgspec.json.decode(page or "{}", type=_Info)
    except msgspec.DecodeError:
        return {}
    stated = {"kv_tokens": info.max_total_num_tokens, "block_size": info.page_size}
    return {word: float(value) for word, value in stated.items() if value is not None and value > 0}


def _counted(page: str) -> dict[str, float]:
    found = [sample for sample in samples(page) if not math.isnan(sample.value)]
    values = {}
    for word, names in _OF_GROUPS.items():
        if rows := _first(found, names):
            values[word] = sum(_by_group(rows).values())
    for word, names in _TOTALS.items():
        if rows := _first(found, names):
            values[word] = sum(row.value for row in rows)
    for word, names in _CAPACITY.items():
        positive = [row.value for row in _first(found, names) if row.value > 0]
        if positive:
            values[word] = min(positive)
    if rows := _first(found, ("token_usage",)):
        values["kv_used_ratio"] = max(row.value for row in rows)
    if "prefix_hits_tokens_total" in values and "prompt_tokens_total" in values:
        # the prompt counter includes what came from the cache
        values["prefix_queries_tokens_total"] = values["prompt_tokens_total"]
    return values


def _by_group(rows: Iterable[Sample]) -> dict[str, float]:
    """The largest statement of each DP-attention group (or replica)."""
    groups: dict[str, float] = {}
    for row in rows:
        group = row.labels.get("dp_rank", "")
        groups[group] = max(row.value, groups.get(group, row.value))
    return groups


def _first(found: list[Sample], names: tuple[str, ...]) -> list[Sample]:
    """Samples of the first name that is there at all."""
    for name in names:
        if rows := [sample for sample in found if sample.name == _PREFIX + name]:
            return rows
    return []


METRICS = MetricMap(prefix=_PREFIX, read=_read, paths=("/metrics",), info_paths=_INFO)
