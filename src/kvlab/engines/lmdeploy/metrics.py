"""LMDeploy's /metrics in kvlab's words. Data-parallel engines of one server are series of their own."""

from __future__ import annotations

from kvlab.core.metric_map import MetricMap
from kvlab.core.series import Series

_HITS = "prefix_hits_tokens_total"
_SERIES = (
    Series("running", ("lmdeploy:num_requests_running",)),
    Series("waiting", ("lmdeploy:num_requests_waiting",)),
    # 0 to 1 in spite of its name
    Series("kv_used_ratio", ("lmdeploy:gpu_cache_usage_perc",), across="largest"),
    Series("requests_total", ("lmdeploy:request_success_total",)),
    Series("prompt_tokens_total", ("lmdeploy:prompt_tokens_total",)),
    Series("generation_tokens_total", ("lmdeploy:generation_tokens_total",)),
    Series(_HITS, ("lmdeploy:cached_tokens_total",)),
    # the prompt counter includes what came from the cache
    Series("prefix_queries_tokens_total", ("lmdeploy:prompt_tokens_total",), needs=_HITS),
    Series("drafted_tokens_total", ("lmdeploy:spec_decode_num_draft_tokens_total",)),
    Series("accepted_tokens_total", ("lmdeploy:spec_decode_num_accepted_tokens_total",)),
)
_HISTOGRAMS = {
    "ttft_seconds": ("lmdeploy:time_to_first_token_seconds",),
    # both are of single steps; the older one is divided by a step's tokens where the newer one stands beside it
    "itl_seconds": ("lmdeploy:iter_token_latency", "lmdeploy:time_per_output_token_seconds"),
    "queue_seconds": ("lmdeploy:request_queue_time_seconds",),
    "prefill_seconds": ("lmdeploy:request_prefill_time_seconds",),
    "decode_seconds": ("lmdeploy:request_decode_time_seconds",),
    "e2e_seconds": ("lmdeploy:e2e_request_latency_seconds",),
    "request_prompt_tokens": ("lmdeploy:request_prompt_tokens",),
    "request_generation_tokens": ("lmdeploy:request_generation_tokens",),
    "iteration_tokens": ("lmdeploy:iteration_tokens_total",),
}

METRICS = MetricMap(
    prefix="lmdeploy:",
    paths=("/metrics",),
    series=_SERIES,
    histograms=_HISTOGRAMS,
    pools=("model_name", "engine"),
)
