"""The arguments that SGLang's log states: all of them, with what it filled in for those that were not given."""

from __future__ import annotations

import re

from msgspec.structs import replace

from kvlab.core.notation import literal
from kvlab.core.observation import Observation, Said, Setting, Value
from kvlab.core.stated import (
    ABSENT,
    Arguments,
    Named,
    StatedArgs,
    count,
    flag_number,
    last_part,
    reversed_truth,
    share,
    truth,
    word,
)
from kvlab.core.tiers import GB
from kvlab.core.units import GIB


def _chunk(text: str) -> Value:
    """Tokens of a prefill chunk; -1 turns chunks off, which a request cannot ask for."""
    return ABSENT if literal(text) == -1 else count(text)


_NAMES = {
    "model_path": Named("model", last_part),
    "context_length": Named("context", count),
    "mem_fraction_static": Named("util", share),
    "kv_cache_dtype": Named("kv_dtype", word),
    "page_size": Named("block_size", count),
    "tp_size": Named("tp", count),
    "pp_size": Named("pp", count),
    "dp_size": Named("dp", count),
    "ep_size": Named("ep", count),
    "max_running_requests": Named("max_num_seqs", count),
    "chunked_prefill_size": Named("max_num_batched_tokens", _chunk),
    "disable_radix_cache": Named("prefix_caching", reversed_truth),
    "max_total_tokens": Named("max-total-tokens", flag_number),
    "speculative_algorithm": Named("speculative-algorithm", word),
    "speculative_num_draft_tokens": Named("speculative-num-draft-tokens", flag_number),
    "enable_dp_attention": Named("enable-dp-attention", truth),
    "disable_cuda_graph": Named("disable-cuda-graph", truth),
    "cuda_graph_max_bs": Named("cuda-graph-max-bs", flag_number),
    "max_mamba_cache_size": Named("max-mamba-cache-size", flag_number),
    "mamba_ssm_dtype": Named("mamba-ssm-dtype", word),
    "swa_full_tokens_ratio": Named("swa-full-tokens-ratio", flag_number),
    "disable_hybrid_swa_memory": Named("disable-hybrid-swa-memory", truth),
    "quantization": Named("quantization", word),
    "dtype": Named("dtype", word),
    "cpu_offload_gb": Named("cpu-offload-gb", flag_number),
    "enable_lora": Named("enable-lora", truth),
    "enable_hierarchical_cache": Named("enable-hierarchical-cache", truth),
    "hicache_size": Named("hicache-size", flag_number),
    "enable_lmcache": Named("enable-lmcache", truth),
}


def _derived(observation: Observation) -> tuple[Setting, ...]:
    """A tier as a request asks for it: the whole server's GiB, where --hicache-size gives GB (10^9) of each rank."""
    hicache, lmcache = observation.setting("enable-hierarchical-cache"), observation.setting("enable-lmcache")
    if lmcache is not None and lmcache.value is True:
        return (replace(lmcache, name="offload", value="lmcache"),)
    if hicache is None or hicache.value is not True:
        return ()
    size, number = observation.setting("hicache-size"), _ranks(observation)
    found = replace(hicache, name="offload", value="hicache")
    if size is None or size.value is None or number is None:
        return (found,)
    return (found, replace(size, name="offload_gib", value=float(size.value) * GB * number / GIB))


def _ranks(observation: Observation) -> int | None:
    """Ranks of the server; None with data parallelism, which may share those of the tensor parallel group."""
    tp, pp, dp = (
        found.value if (found := observation.setting(name)) is not None and isinstance(found.value, int) else 1
        for name in ("tp", "pp", "dp")
    )
    return tp * pp if dp == 1 else None


def _pool_parts(observation: Observation) -> tuple[str, ...]:
    """Keys and values are all of the pool where no state, no window and no draft has one of its own."""
    apart = ("kv_conv_bytes", "kv_ssm_bytes", "kv_window_tokens", "draft_kv_bytes")
    if any(observation.get(name) is not None for name in apart):
        return ()
    return ("kv_k_bytes", "kv_v_bytes") if observation.get("kv_k_bytes") is not None else ("kv_bytes",)


STATED = StatedArgs(
    # "server_args=ServerArgs(model_path='/home/model/Qwen/QwQ-32B', ..., mem_fraction_static=0.85, ...)" (0.2 on), as a
    # dictionary "server_args={'model_path': ..." in the autumn of 2026
    lists=(Arguments(pattern=re.compile(r"\bserver_args=(?:ServerArgs\(|\{)"), names=_NAMES, whole=True),),
    told=(
        # "Load weight begin. avail mem=21.63 GB": the first of a start, before anything is loaded
        Said("free_at_start_bytes", "bytes", re.compile(r"\bLoad weight begin\. avail mem=(\d+(?:\.\d+)?) ?GB"), GIB),
    ),
    derived=_derived,
    pool_parts=_pool_parts,
    tiers=True,
    where='"server_args=ServerArgs(...)", the first line of a start',
)
