"""The arguments that vLLM's log states: those that were given, and the configuration that came of them."""

from __future__ import annotations

import json
import re

from msgspec.structs import replace

from kvlab.core.notation import literal, pairs
from kvlab.core.observation import Observation, Said, Setting, Value
from kvlab.core.stated import (
    ABSENT,
    Arguments,
    Named,
    StatedArgs,
    count,
    flag_number,
    last_part,
    setting_of,
    share,
    truth,
    word,
)
from kvlab.core.units import GIB

_X = r"(-?\d+(?:\.\d+)?)"


def _speculation(text: str) -> Value:
    """A speculative configuration as JSON, with the keys that a request knows."""
    if literal(text) is None:
        return None
    opening = re.search(r"[({]", text)
    found = {key: literal(value) for key, value in pairs(text, opening.end() if opening else 0).items()}
    number = found.get("num_speculative_tokens", found.get("num_spec_tokens"))
    said = {"method": found.get("method"), "num_speculative_tokens": number, "model": found.get("model")}
    # vLLM writes the target's own path where a model drafts with its own layers.
    if said["method"] in ("mtp", "deepseek_mtp"):
        said["model"] = None
    kept = {key: value for key, value in said.items() if value is not None}
    return json.dumps(kept) if kept else ABSENT


def _connector(text: str) -> Value:
    if literal(text) is None:
        return None
    found = re.search(r"kv_connector['\"]?\s*[=:]\s*['\"](\w+)['\"]", text)
    return found[1] if found is not None else ABSENT


def _gib(text: str) -> Value:
    value = count(text)
    return value / GIB if isinstance(value, int) else value


_RANKS = {
    "tensor_parallel_size": Named("tp", count),
    "pipeline_parallel_size": Named("pp", count),
    "data_parallel_size": Named("dp", count),
    "decode_context_parallel_size": Named("dcp", count),
}
GIVEN = {
    **_RANKS,
    "model": Named("model", last_part),
    "max_model_len": Named("context", count),
    "gpu_memory_utilization": Named("util", share),
    "kv_cache_dtype": Named("kv_dtype", word),
    "kv_cache_memory_bytes": Named("pool_gib", _gib),
    "block_size": Named("block_size", count),
    "max_num_batched_tokens": Named("max_num_batched_tokens", count),
    "max_num_seqs": Named("max_num_seqs", count),
    "enable_prefix_caching": Named("prefix_caching"),
    "mamba_cache_mode": Named("mamba_cache_mode", word),
    "mamba_cache_dtype": Named("mamba-cache-dtype", word),
    "mamba_ssm_cache_dtype": Named("mamba-ssm-cache-dtype", word),
    "num_gpu_blocks_override": Named("num-gpu-blocks-override", flag_number),
    "speculative_config": Named("speculative-config", _speculation),
    "disable_hybrid_kv_cache_manager": Named("disable-hybrid-kv-cache-manager", truth),
    "kv_transfer_config": Named("kv-transfer-config", _connector),
    "kv_offloading_size": Named("kv-offloading-size", flag_number),
    "kv_offloading_backend": Named("kv-offloading-backend", word),
    "enforce_eager": Named("enforce-eager", truth),
    "async_scheduling": Named("async-scheduling", truth),
    "dtype": Named("dtype", word),
    "quantization": Named("quantization", word),
    "cpu_offload_gb": Named("cpu-offload-gb", flag_number),
    "enable_lora": Named("enable-lora", truth),
    "language_model_only": Named("language-model-only", truth),
    "performance_mode": Named("performance-mode", word),
}
_CONFIGURED = {
    # What the arguments became: the dtype and the quantisation are always named, so they tell of no flag.
    **_RANKS,
    "max_seq_len": Named("context", count),
    "kv_cache_dtype": Named("kv_dtype", word),
    "speculative_config": Named("speculative-config", _speculation),
    "enforce_eager": Named("enforce-eager", truth),
    "enable_prefix_caching": Named("prefix_caching", truth),
}


_TIERS = {
    "OffloadingConnector": "native",
    "SimpleCPUOffloadConnector": "native",
    "LMCacheConnectorV1": "lmcache",
    "LMCacheMPConnector": "lmcache",
    "MooncakeStoreConnector": "mooncake",
}
"""Connectors to a tier -> `--offload`; others hand the cache to another server."""


def _derived(observation: Observation) -> tuple[Setting, ...]:
    """The length that concurrency is stated for is the longest request's; a tier as a request asks for it."""
    seen = observation.get("max_concurrency_context")
    if seen is None or isinstance(seen.value, str):
        return _tier(observation)
    return (setting_of(seen, "context", "--max-model-len", int(seen.value)), *_tier(observation))


def _tier(observation: Observation) -> tuple[Setting, ...]:
    size, connector = observation.setting("kv-offloading-size"), observation.setting("kv-transfer-config")
    if size is not None and size.value is not None:
        backend, dp = observation.setting("kv-offloading-backend"), observation.setting("dp")
        kind = backend.value if backend is not None and backend.value is not None else "native"
        replicas = dp.value if dp is not None and isinstance(dp.value, int) else 1
        whole = replace(size, name="offload_gib", value=float(size.value) * replicas)
        return (replace(size, name="offload", value=kind), whole)
    named = _TIERS.get(str(connector.value)) if connector is not None else None
    return () if connector is None or named is None else (replace(connector, name="offload", value=named),)


STATED = StatedArgs(
    derived=_derived,
    lists=(
        # "non-default args: {'model_tag': './model', 'max_model_len': 2048, 'block_size': 32}" (0.9 on)
        Arguments(pattern=re.compile(r"\bnon-default args: \{"), names=GIVEN, whole=True),
        # "args: Namespace(subparser='serve', model_tag='...', max_model_len=20000, ...)" (to 0.9)
        Arguments(pattern=re.compile(r"\bargs: Namespace\("), names=GIVEN, whole=True),
        # "Initializing a V1 LLM engine (v0.32.0) with config: model='./model', speculative_config=None, ..."
        Arguments(
            pattern=re.compile(r"LLM engine \(v[\w.+]+\) with config: "),
            names=_CONFIGURED,
            whole=False,
            flag=lambda key: "--max-model-len" if key == "max_seq_len" else "--" + key.replace("_", "-"),
        ),
    ),
    told=(
        # "Initial free memory 78.1 GiB, reserved 4.0 GiB memory for KV Cache ..."
        Said("free_at_start_bytes", "bytes", re.compile(rf"Initial free memory:? {_X} GiB"), GIB),
        # "Free memory on device cuda:0 (21.3/23.6 GiB) on startup ..." (a refusal and a hint; 0.8 on)
        Said("free_at_start_bytes", "bytes", re.compile(rf"Free memory on device [\w:]*\s*\({_X}/[\d.]+ GiB\)"), GIB),
        Said("gpu_bytes", "bytes", re.compile(rf"Free memory on device [\w:]*\s*\([\d.]+/{_X} GiB\)"), GIB),
        # "Turning off hybrid kv cache manager because `--kv-transfer-config` is set. ..."
        Said("hybrid_manager_off", "word", re.compile(r"(Turning off hybrid kv cache manager) because")),
        # "Hybrid KV cache manager is disabled for this hybrid model, ..."
        Said("hybrid_manager_off", "word", re.compile(r"(Hybrid KV cache manager is disabled) for this hybrid model")),
        # "Profiling run" of V0: "non_torch_memory takes 0.35GiB; PyTorch activation peak memory takes 1.21GiB; ..."
        Said("non_torch_bytes", "bytes", re.compile(rf"non_torch_memory takes {_X}GiB"), GIB),
        Said("activation_bytes", "bytes", re.compile(rf"PyTorch activation peak memory takes {_X}GiB"), GIB),
        # "Encoder cache will be initialized with a budget of 16384 tokens, and profiled with 1 image items ..."
        Said(
            "encoder_tokens", "tokens", re.compile(r"Encoder cache will be initialized with a budget of (\d+) tokens")
        ),
    ),
    tiers=True,
    where='"non-default args: {...}", which vLLM prints first of all (0.9 on; "args: Namespace(...)" before)',
    releases=("0.28.0", "0.27.0", "0.25.0", "0.19.0", "0.10.0"),
)
