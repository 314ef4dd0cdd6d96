"""trtllm-serve's metrics in kvlab's words.

Prometheus text is at /prometheus/metrics (return_perf_metrics); /metrics is a JSON list of iterations that is emptied
by whoever reads it, so it is read only where it was saved. The first releases have few of the gauges.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.metric_map import MetricMap
from kvlab.core.series import Series

_PROMETHEUS = "/prometheus/metrics"
_ITERATIONS = "/metrics"
_HITS = "prefix_hits_tokens_total"
_USED, _FREE = "_used_blocks", "_free_blocks"
_SERIES = (
    Series("running", ("trtllm_num_requests_running",)),
    Series("waiting", ("trtllm_num_requests_waiting",)),
    # ranks of one server state the same cache: the fullest speaks
    Series("kv_used_ratio", ("trtllm_kv_cache_utilization",), across="largest"),
    Series("num_gpu_blocks", ("trtllm_kv_cache_max_blocks",), across="largest"),
    Series("block_size", ("trtllm_kv_cache_tokens_per_block",), across="largest"),
    Series(_USED, ("trtllm_kv_cache_used_blocks",), across="largest"),
    Series(_FREE, ("trtllm_kv_cache_free_blocks",), across="smallest"),
    Series("max_running_requests", ("trtllm_max_num_active_requests",), across="largest"),
    Series("requests_total", ("trtllm_request_success_total",)),
    Series("prompt_tokens_total", ("trtllm_prompt_tokens_total",)),
    Series("generation_tokens_total", ("trtllm_generation_tokens_total",)),
    Series(_HITS, ("trtllm_prompt_cached_tokens_total",)),
    Series("prefix_queries_tokens_total", ("trtllm_prompt_tokens_total",), needs=_HITS),
    Series("offload_loaded_bytes_total", ("trtllm_kv_cache_onboard_bytes_total",)),
    Series("offload_stored_bytes_total", ("trtllm_kv_cache_offload_bytes_total",)),
    Series("host_tier_used_ratio", ("trtllm_kv_cache_host_utilization",), across="largest"),
    Series("drafted_tokens_total", ("trtllm_spec_decode_num_draft_tokens_total",)),
    Series("accepted_tokens_total", ("trtllm_spec_decode_num_accepted_tokens_total",)),
)
_HISTOGRAMS = {
    "ttft_seconds": ("trtllm_time_to_first_token_seconds",),
    # one observation a request, in spite of the name that vLLM gave to single tokens
    "tpot_seconds": ("trtllm_time_per_output_token_seconds",),
    "queue_seconds": ("trtllm_request_queue_time_seconds",),
    "prefill_seconds": ("trtllm_request_prefill_time_seconds",),
    "decode_seconds": ("trtllm_request_decode_time_seconds",),
    "e2e_seconds": ("trtllm_e2e_request_latency_seconds",),
}


class _Cache(msgspec.Struct, rename="camel"):
    max_num_blocks: int | None = None
    free_num_blocks: int | None = None
    used_num_blocks: int | None = None
    tokens_per_block: int | None = None


class _Iteration(msgspec.Struct, rename="camel"):
    num_active_requests: int | None = None
    num_queued_requests: int | None = None
    max_num_active_requests: int | None = None
    kv_cache_stats: _Cache | None = None


def _more(pages: Mapping[str, str], values: Mapping[str, float]) -> dict[str, float]:
    found = _iterations(pages[_ITERATIONS]) if _ITERATIONS in pages else {}
    found |= values
    used, free = found.pop(_USED, None), found.pop(_FREE, None)
    block, blocks = found.get("block_size"), found.get("num_gpu_blocks")
    if block is not None and blocks is not None:
        found["kv_tokens"] = block * blocks
    if block is not None and used is not None:
        found["kv_used_tokens"] = block * used
    if block is not None and free is not None:
        found["kv_free_tokens"] = block * free
    if used is not None and blocks:
        found.setdefault("kv_used_ratio", used / blocks)
    return found


def _iterations(page: str) -> dict[str, float]:
    """The newest iteration of a saved /metrics page; an empty list says nothing."""
    try:
        rows = msgspec.json.decode(page, type=list[_Iteration])
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"/metrics is not trtllm-serve's list of iterations: {error}") from None
    if not rows:
        return {}
    last, cache = rows[-1], rows[-1].kv_cache_stats or _Cache()
    stated = {
        "running": last.num_active_requests,
        "waiting": last.num_queued_requests,
        "max_running_requests": last.max_num_active_requests,
        "num_gpu_blocks": cache.max_num_blocks,
        _FREE: cache.free_num_blocks,
        "block_size": cache.tokens_per_block,
        _USED: cache.used_num_blocks,
    }
    return {word: float(value) for word, value in stated.items() if value is not None}


_SAVED = ("running", "waiting", "max_running_requests", "num_gpu_blocks", "block_size", "kv_used_ratio")
METRICS = MetricMap(
    prefix="trtllm_",
    paths=(_PROMETHEUS,),
    series=_SERIES,
    histograms=_HISTOGRAMS,
    more=_more,
    told={
        "kv_tokens": "blocks x tokens per block",
        "kv_used_tokens": "used blocks x tokens per block",
        "kv_free_tokens": "free blocks x tokens per block",
        **dict.fromkeys(_SAVED, "/metrics, as saved"),
    },
)
