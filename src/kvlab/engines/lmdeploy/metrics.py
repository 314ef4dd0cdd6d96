"""LMDeploy's /metrics in kvlab's words. Data-parallel engines of one server are series of their own."""

from __future__ import annotations

from kvlab.core.engine import MetricMap
from kvlab.core.series import Series

_HITS = "prefix_hits_tokens_total"
_SERIES = (
    Series("running", ("lmdeploy:num_requests_running",)),
    Series("waiting", ("lmdeploy:num_requests_waiting",)),
    # 0 to 1 in spite of its name
    Series("kv_used_ratio", ("lmdeploy:gpu_cache_usage_perc",), across="largest"),
    Series("prompt_tokens_total", ("lmdeploy:prompt_tokens_total",)),
    Series("generation_tokens_total", ("lmdeploy:generation_tokens_total",)),
    Series(_HITS, ("lmdeploy:cached_tokens_total",)),
    # the prompt counter includes what came from the cache
    Series("prefix_queries_tokens_total", ("lmdeploy:prompt_tokens_total",), needs=_HITS),
)

METRICS = MetricMap(prefix="lmdeploy:", paths=("/metrics",), series=_SERIES, pools=("model_name", "engine"))
