"""vLLM's /metrics in kvlab's words, V0 to 0.33. Engines of one server have pools of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvlab.core.metric_map import MetricMap
from kvlab.core.series import Series
from kvlab.core.units import GIB

_CONFIG = ("vllm:cache_config_info",)
_BY_REASON = ("vllm:num_requests_waiting_by_reason",)
_OLD_OFFLOAD = ("vllm:kv_offload_total_bytes_total",)
_USE = "vllm:kv_cache_usage_perc"
_V1_RATIO = "_v1_ratio"
_CACHED = ("vllm:prompt_tokens_cached_by_source_total",)
_SIMPLE = "vllm:simple_kv_offload_"
_OLD_TIME = ("vllm:kv_offload_total_time_total",)
_PINNED, _CHUNKS, _GIVEN_GIB, _LMCACHE = "_simple_pinned", "_simple_blocks", "_offloading_gib", "_lmcache_hits_total"
_EXTERNAL = "external_hits_tokens_total"
# gpu_prefix_cache_* (to 0.9.1) counted blocks at first and tokens later; their HELP text says which.
_OLD_PREFIX = {
    "prefix_queries_tokens_total": ("_old_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_hits_tokens_total": ("_old_hits_total", "vllm:gpu_prefix_cache_hits_total"),
}
_SERIES = (
    Series("running", ("vllm:num_requests_running",)),
    Series("waiting", ("vllm:num_requests_waiting",)),
    Series("waiting_capacity", _BY_REASON, only={"reason": "capacity"}),
    Series("waiting_deferred", _BY_REASON, only={"reason": "deferred"}),
    Series("kv_used_ratio", (_USE, "vllm:gpu_cache_usage_perc"), across="largest"),
    Series(_V1_RATIO, (_USE,), across="largest"),
    # the engine's own exact capacity
    Series("kv_tokens", _CONFIG, across="smallest", label="kv_cache_size_tokens"),
    Series("max_concurrency", _CONFIG, across="smallest", label="kv_cache_max_concurrency"),
    Series("num_gpu_blocks", _CONFIG, across="smallest", label="num_gpu_blocks"),
    Series("block_size", _CONFIG, across="smallest", label="block_size"),
    Series("preemptions_total", ("vllm:num_preemptions_total",)),
    Series("requests_total", ("vllm:request_success_total",)),
    Series("prompt_tokens_total", ("vllm:prompt_tokens_total",)),
    Series("prefill_tokens_total", ("vllm:prompt_tokens_by_source_total",), only={"source": "local_compute"}),
    Series("generation_tokens_total", ("vllm:generation_tokens_total",)),
    Series("prefix_queries_tokens_total", ("vllm:prefix_cache_queries_total",)),
    Series("prefix_hits_tokens_total", ("vllm:prefix_cache_hits_total",)),
    *(Series(count, (name,)) for count, name in _OLD_PREFIX.values()),
    Series("external_queries_tokens_total", ("vllm:external_prefix_cache_queries_total",)),
    Series(_EXTERNAL, ("vllm:external_prefix_cache_hits_total",)),
    # each rank of LMCache counts the tokens that all of them load a part of
    Series(_LMCACHE, ("lmcache:num_hit_tokens_total",), across="largest"),
    Series("host_hits_tokens_total", _CACHED, only={"source": "host"}),
    Series("storage_hits_tokens_total", _CACHED, only={"source": "disk"}),
    Series("peer_hits_tokens_total", _CACHED, only={"source": "p2p"}),
    # what transfers and hits hold: chunks that lie there unused are not counted
    Series("host_tier_used_ratio", ("vllm:kv_offload_cpu_cache_usage_perc",), across="largest"),
    Series(_PINNED, (f"{_SIMPLE}used_blocks",), across="largest"),
    Series(_CHUNKS, (f"{_SIMPLE}info",), across="smallest", only={"backend": "cpu"}, label="capacity_blocks"),
    # GiB of all ranks of one engine
    Series(_GIVEN_GIB, _CONFIG, across="smallest", label="kv_offloading_size"),
    # every rank has its own part
    Series("host_tier_used_bytes", ("lmcache:local_cache_usage",)),
    Series("storage_tier_used_bytes", ("lmcache:local_storage_usage",)),
    Series("offload_loaded_bytes_total", ("vllm:kv_offload_load_bytes_total",)),
    Series("offload_loaded_bytes_total", _OLD_OFFLOAD, only={"transfer_type": "CPU_to_GPU"}),
    Series("offload_stored_bytes_total", ("vllm:kv_offload_store_bytes_total",)),
    Series("offload_stored_bytes_total", _OLD_OFFLOAD, only={"transfer_type": "GPU_to_CPU"}),
    Series("offload_loading_seconds_total", ("vllm:kv_offload_load_time_total",)),
    Series("offload_loading_seconds_total", _OLD_TIME, only={"transfer_type": "CPU_to_GPU"}),
    Series("offload_storing_seconds_total", ("vllm:kv_offload_store_time_total",)),
    Series("offload_storing_seconds_total", _OLD_TIME, only={"transfer_type": "GPU_to_CPU"}),
    Series("offload_refused_total", ("vllm:kv_offload_allocation_failure_total",)),
    Series("drafted_tokens_total", ("vllm:spec_decode_num_draft_tokens_total",)),
    Series("accepted_tokens_total", ("vllm:spec_decode_num_accepted_tokens_total",)),
)
_HISTOGRAMS = {
    "ttft_seconds": ("vllm:time_to_first_token_seconds",),
    # the older name is of single tokens too, in spite of the word that it shares with the request's mean
    "itl_seconds": ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    "tpot_seconds": ("vllm:request_time_per_output_token_seconds",),
    "queue_seconds": ("vllm:request_queue_time_seconds",),
    "prefill_seconds": ("vllm:request_prefill_time_seconds",),
    "decode_seconds": ("vllm:request_decode_time_seconds",),
    "e2e_seconds": ("vllm:e2e_request_latency_seconds",),
    "request_prompt_tokens": ("vllm:request_prompt_tokens",),
    "request_generation_tokens": ("vllm:request_generation_tokens",),
    "iteration_tokens": ("vllm:iteration_tokens_total",),
}


def _more(pages: Mapping[str, str], values: Mapping[str, float]) -> dict[str, float]:
    """Adds the prefix counters of older releases, the blocks that the ratio is a share of, and what a tier holds."""
    page = pages.get("/metrics", "")
    found = _tiers(page, values)
    # V0 had no block that is always empty
    if found.pop(_V1_RATIO, None) is not None and values.get("num_gpu_blocks", 0) > 1:
        found["kv_usable_blocks"] = values["num_gpu_blocks"] - 1
    for word, (count, name) in _OLD_PREFIX.items():
        told = found.pop(count, None)
        if told is not None and (unit := _unit(page, name, values.get("block_size"))):
            found.setdefault(word, unit * told)
    return found


def _tiers(page: str, values: Mapping[str, float]) -> dict[str, float]:
    """The values with what several series, or another program's, say of a tier."""
    found = {word: value for word, value in values.items() if word not in (_PINNED, _CHUNKS, _GIVEN_GIB, _LMCACHE)}
    pinned, blocks, gib, hits = (values.get(word) for word in (_PINNED, _CHUNKS, _GIVEN_GIB, _LMCACHE))
    if pinned is not None and blocks:
        found.setdefault("host_tier_used_ratio", pinned / blocks)
    if gib is not None:
        found["offload_size_bytes"] = gib * GIB
    # which ranks are of which engine is not told, so several engines' hits cannot be added up
    if hits is not None and len(set(re.findall(r'\bengine="(\w+)"', page))) < 2:
        found.setdefault(_EXTERNAL, hits)
    return found


def _unit(page: str, name: str, block_size: float | None) -> float | None:
    """Tokens per count of an old prefix counter; None when the page does not settle it."""
    told = re.search(rf"^# HELP {name.removesuffix('_total')}(?:_total)? (.*)$", page, re.MULTILINE)
    if told is None:
        return None
    return block_size if "blocks" in told.group(1) else 1.0


METRICS = MetricMap(
    prefix="vllm:",
    beside=("lmcache:",),
    paths=("/metrics",),
    series=_SERIES,
    histograms=_HISTOGRAMS,
    pools=("model_name", "engine"),
    more=_more,
    versions={
        "vllm:num_requests_waiting_by_reason": "0.20+",
        "vllm:kv_cache_usage_perc": "0.9.2+",
        "vllm:gpu_cache_usage_perc": "to 0.11",
        "vllm:prompt_tokens_by_source_total": "0.16+",
        "vllm:prefix_cache_queries_total": "0.9.2+",
        "vllm:prefix_cache_hits_total": "0.9.2+",
        "vllm:external_prefix_cache_queries_total": "0.11.2+",
        "vllm:external_prefix_cache_hits_total": "0.11.2+",
        "vllm:kv_offload_load_bytes_total": "0.24+",
        "vllm:kv_offload_store_bytes_total": "0.24+",
        "vllm:kv_offload_total_bytes_total": "0.16+, deprecated",
        "vllm:prompt_tokens_cached_by_source_total": "0.32+",
        "vllm:kv_offload_cpu_cache_usage_perc": "0.24+",
        "vllm:kv_offload_load_time_total": "0.24+",
        "vllm:kv_offload_store_time_total": "0.24+",
        "vllm:kv_offload_total_time_total": "0.16+, deprecated",
        "vllm:kv_offload_allocation_failure_total": "0.26+",
        "lmcache:local_cache_usage": "LMCache in the engine's processes",
        "lmcache:local_storage_usage": "LMCache in the engine's processes",
        "vllm:inter_token_latency_seconds": "0.10.2+",
        "vllm:time_per_output_token_seconds": "to 0.14",
        "vllm:request_time_per_output_token_seconds": "0.11+",
        "kv_cache_size_tokens": "0.28+",
        "kv_cache_max_concurrency": "0.28+",
    },
    told={
        **{word: f"{name} (to 0.9.1), in the unit that its HELP states" for word, (_, name) in _OLD_PREFIX.items()},
        "kv_usable_blocks": "num_gpu_blocks less the one that is always empty",
        "host_tier_used_ratio": f"`{_SIMPLE}used_blocks` over label `capacity_blocks` of `{_SIMPLE}info` (0.31+)",
        "offload_size_bytes": "`vllm:cache_config_info`, label `kv_offloading_size` (GiB)",
        _EXTERNAL: "`lmcache:num_hit_tokens_total`, the largest of the ranks, where vLLM has no counter and one engine",
    },
)
