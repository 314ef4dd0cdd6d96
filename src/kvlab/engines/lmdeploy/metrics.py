"""LMDeploy's /metrics in kvlab's words. Data-parallel engines of one server are series of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kvlab.core.engine import MetricMap
from kvlab.core.exposition import samples

_SUMMED = {
    "lmdeploy:num_requests_running": "running",
    "lmdeploy:num_requests_waiting": "waiting",
    "lmdeploy:prompt_tokens_total": "prompt_tokens_total",
    "lmdeploy:generation_tokens_total": "generation_tokens_total",
    "lmdeploy:cached_tokens_total": "prefix_hits_tokens_total",
}
_USED = "lmdeploy:gpu_cache_usage_perc"
"""0 to 1 in spite of its name."""


def _read(pages: Mapping[str, str]) -> dict[str, float]:
    if "/metrics" not in pages:
        return {}
    rows = [sample for sample in samples(pages["/metrics"]) if not math.isnan(sample.value)]
    found = {}
    for name, word in _SUMMED.items():
        if values := [row.value for row in rows if row.name == name]:
            found[word] = sum(values)
    if used := [row.value for row in rows if row.name == _USED]:
        found["kv_used_ratio"] = max(used)
    if "prefix_hits_tokens_total" in found and "prompt_tokens_total" in found:
        found["prefix_queries_tokens_total"] = found["prompt_tokens_total"]
    return found


METRICS = MetricMap(prefix="lmdeploy:", read=_read, paths=("/metrics",))
