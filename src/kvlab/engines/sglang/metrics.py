"""SGLang's /metrics, and its page about itself, in kvlab's words, 0.4.0 to 0.5.23.

Tensor-parallel ranks repeat one pool, DP-attention groups have one each. The front end counts when a request ends, so a
window over long answers sees little of them; realtime_tokens_total counts as batches run. token_usage counts live
requests only, so a warm prefix cache does not show in it; cache_hit_rate is of one batch, and is no hit rate.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kvlab.core.metric_map import MetricMap
from kvlab.core.series import Series

_LIVE = ("sglang:realtime_tokens_total",)
_HITS = "prefix_hits_tokens_total"
_CACHED = ("sglang:cached_tokens_total",)
_SERIES = (
    # gauges of a pool or a scheduler: ranks of one group repeat them, groups add up
    Series("running", ("sglang:num_running_reqs",), across="pools"),
    Series("waiting", ("sglang:num_queue_reqs",), across="pools"),
    Series("kv_used_ratio", ("sglang:token_usage",), across="largest"),
    Series("kv_used_tokens", ("sglang:kv_used_tokens", "sglang:num_used_tokens"), across="pools"),
    Series("kv_free_tokens", ("sglang:kv_available_tokens",), across="pools"),
    Series("kv_evictable_tokens", ("sglang:kv_evictable_tokens",), across="pools"),
    Series("kv_tokens", ("sglang:max_total_num_tokens",), across="smallest"),
    Series("block_size", ("sglang:page_size",), across="smallest"),
    Series("num_gpu_blocks", ("sglang:num_pages",), across="smallest"),
    # a gauge of all retractions in 0.4.9 to 0.5.2; in between only histograms per request
    Series(
        "preemptions_total",
        ("sglang:num_retracted_requests_total", "sglang:total_retracted_reqs"),
        across="pools",
    ),
    # HiCache: ranks repeat the tokens, and have bytes of their own
    Series("host_tier_used_tokens", ("sglang:hicache_host_used_tokens",), across="pools"),
    Series("offload_tokens", ("sglang:hicache_host_total_tokens",), across="smallest"),
    Series("offload_loaded_bytes_total", ("sglang:load_back_bytes_total",)),
    Series("offload_stored_bytes_total", ("sglang:hicache_backup_bytes_total",)),
    # counted as the batches run; the first token of a request is its prefill's
    Series("prefill_tokens_total", _LIVE, across="pools", only={"mode": "prefill_compute"}),
    Series("generation_tokens_total", _LIVE, across="pools", only={"mode": "decode"}),
    # counters of the front end: label sets add up (cached tokens carry their source)
    Series("generation_tokens_total", ("sglang:generation_tokens_total",)),
    Series("requests_total", ("sglang:num_requests_total",)),
    Series("prompt_tokens_total", ("sglang:prompt_tokens_total",)),
    Series(_HITS, _CACHED),
    # parts of the hits: "storage_" and its name, then "storage" for all of them
    Series("host_hits_tokens_total", _CACHED, only={"cache_source": "host"}),
    Series("storage_hits_tokens_total", _CACHED, only={"cache_source": "storage*"}),
    # the prompt counter includes what came from the cache
    Series("prefix_queries_tokens_total", ("sglang:prompt_tokens_total",), needs=_HITS),
)
_HISTOGRAMS = {
    "ttft_seconds": ("sglang:time_to_first_token_seconds",),
    # the older name is of single tokens too, where it stands alone
    "itl_seconds": ("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
    "tpot_seconds": ("sglang:request_time_per_output_token_seconds",),
    "e2e_seconds": ("sglang:e2e_request_latency_seconds",),
    "queue_seconds": ("sglang:queue_time_seconds",),
    "request_prompt_tokens": ("sglang:prompt_tokens_histogram",),
    "request_generation_tokens": ("sglang:generation_tokens_histogram",),
}

_INFO = ("/server_info", "/get_server_info")
"""The second is the name up to 0.5.5, kept as a deprecated alias since."""


class _State(msgspec.Struct):
    """What one DP rank's scheduler says of itself."""

    effective_max_running_requests_per_dp: int | None = None


class _Info(msgspec.Struct):
    """The part of the server's own description that states its pool."""

    max_total_num_tokens: int | None = None
    page_size: int | None = None
    internal_states: list[_State] | None = None


def _more(pages: Mapping[str, str], values: Mapping[str, float]) -> dict[str, float]:
    return {**_described(next((pages[path] for path in _INFO if path in pages), None)), **values}


def _described(page: str | None) -> dict[str, float]:
    """Capacity as the server describes itself: it is there without metrics too."""
    try:
        info = msgspec.json.decode(page or "{}", type=_Info)
    except (msgspec.DecodeError, RecursionError):
        return {}
    limits = [state.effective_max_running_requests_per_dp for state in info.internal_states or ()]
    known = [limit for limit in limits if limit is not None]
    stated = {
        "kv_tokens": info.max_total_num_tokens,
        "block_size": info.page_size,
        "max_running_requests": sum(known) if len(known) == len(limits) else None,
    }
    return {word: float(value) for word, value in stated.items() if value is not None and value > 0}


METRICS = MetricMap(
    prefix="sglang:",
    paths=("/metrics",),
    info_paths=_INFO,
    series=_SERIES,
    histograms=_HISTOGRAMS,
    pools=("dp_rank",),
    more=_more,
    told={
        "kv_tokens": "/server_info max_total_num_tokens",
        "block_size": "/server_info page_size",
        "max_running_requests": "/server_info effective_max_running_requests_per_dp, of all ranks",
    },
    versions={
        "sglang:hicache_host_used_tokens": "0.5.10+",
        "sglang:hicache_host_total_tokens": "0.5.10+",
        "sglang:load_back_bytes_total": "0.5.18+",
        "sglang:hicache_backup_bytes_total": "0.5.18+",
        "sglang:kv_used_tokens": "after 0.5.6",
        "sglang:kv_available_tokens": "after 0.5.6",
        "sglang:kv_evictable_tokens": "after 0.5.6",
        "sglang:total_retracted_reqs": "0.4.9 to 0.5.2",
        "sglang:time_per_output_token_seconds": "early 2025 and before",
        "sglang:request_time_per_output_token_seconds": "0.5.23",
    },
)
