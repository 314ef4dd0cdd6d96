"""SGLang's /metrics, and its page about itself, in kvlab's words, 0.4.0 to 0.5.23.

Tensor-parallel ranks repeat one pool, DP-attention groups have one each. Totals are counted by the front end when a
request ends; token_usage counts live requests only, so a warm prefix cache does not show in it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kvlab.core.engine import MetricMap
from kvlab.core.series import Series

_HITS = "prefix_hits_tokens_total"
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
    # counters of the front end: label sets add up (cached tokens carry their source)
    Series("prompt_tokens_total", ("sglang:prompt_tokens_total",)),
    Series("generation_tokens_total", ("sglang:generation_tokens_total",)),
    Series(_HITS, ("sglang:cached_tokens_total",)),
    # the prompt counter includes what came from the cache
    Series("prefix_queries_tokens_total", ("sglang:prompt_tokens_total",), needs=_HITS),
)
_HISTOGRAMS = {
    "ttft_seconds": ("sglang:time_to_first_token_seconds",),
    "e2e_seconds": ("sglang:e2e_request_latency_seconds",),
    "queue_seconds": ("sglang:queue_time_seconds",),
}

_INFO = ("/server_info", "/get_server_info")
"""The second is the name up to 0.5.5, kept as a deprecated alias since."""


class _Info(msgspec.Struct):
    """The part of the server's own description that states its pool."""

    max_total_num_tokens: int | None = None
    page_size: int | None = None


def _more(pages: Mapping[str, str], values: Mapping[str, float]) -> dict[str, float]:
    return {**_described(next((pages[path] for path in _INFO if path in pages), None)), **values}


def _described(page: str | None) -> dict[str, float]:
    """Capacity as the server describes itself: it is there without metrics too."""
    try:
        info = msgspec.json.decode(page or "{}", type=_Info)
    except msgspec.DecodeError:
        return {}
    stated = {"kv_tokens": info.max_total_num_tokens, "block_size": info.page_size}
    return {word: float(value) for word, value in stated.items() if value is not None and value > 0}


METRICS = MetricMap(
    prefix="sglang:",
    paths=("/metrics",),
    info_paths=_INFO,
    series=_SERIES,
    histograms=_HISTOGRAMS,
    pools=("dp_rank",),
    more=_more,
    told={"kv_tokens": "/server_info max_total_num_tokens", "block_size": "/server_info page_size"},
)
