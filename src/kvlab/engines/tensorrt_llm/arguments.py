"""Engine arguments: what has an option of its own, what goes on the command line, what into the YAML file."""

from __future__ import annotations

from kvlab.core.errors import BadInput, misspelt, shortened
from kvlab.core.model import Doubt
from kvlab.core.plan import Ask

_OWN_OPTION = {
    "max_seq_len": "--context",
    "free_gpu_memory_fraction": "--util",
    "kv_cache_free_gpu_memory_fraction": "--util",
    "max_batch_size": "--max-num-seqs",
    "max_num_tokens": "--max-num-batched-tokens",
    "tp_size": "--tp",
    "tensor_parallel_size": "--tp",
    "pp_size": "--pp",
    "pipeline_parallel_size": "--pp",
    "ep_size": "--ep",
    "moe_expert_parallel_size": "--ep",
    "kv_cache_config.dtype": "--kv-dtype",
    "kv_cache_config.tokens_per_block": "--block-size",
    "kv_cache_config.max_tokens": "--pool-gib",
    "kv_cache_config.max_gpu_total_bytes": "--pool-gib",
    "kv_cache_config.free_gpu_memory_fraction": "--util",
    "kv_cache_config.enable_block_reuse": "--no-prefix-caching",
}
_CHOSEN = ("host", "port", "enable_iter_perf_stats", "return_perf_metrics")
"""The address, and what kvlab needs to watch the cache."""
_QUIET = ("warning", "error", "internal_error")
"""Log levels without the lines that state the cache."""
_OTHERS = ("moe_tensor_parallel_size", "moe_cluster_parallel_size", "kv_cache_config.enable_partial_reuse")
"""Names that are close to those that count."""
_CACHE = "kv_cache_config"
_HARMLESS = tuple(
    f"{_CACHE}.{name}"
    for name in ("host_cache_size", "enable_partial_reuse", "copy_on_partial_reuse", "event_buffer_max_size")
)
"""Entries about blocks beside the GPU's pool, or about how its blocks are shared."""
_FILE = ("config", "extra_llm_api_options")


def flag_name(name: str) -> str:
    """trtllm-serve's own spelling: underscores, dots for what lies deeper in the YAML file."""
    return name.lstrip("-").replace("-", "_")


def check_arguments(ask: Ask) -> None:
    """Raises BadInput for an engine argument that would overrule the plan, naming the option that says the same."""
    for name, value in ask.engine_args:
        flag = flag_name(name)
        if flag in _CHOSEN:
            raise BadInput(f"--engine-arg {name}: kvlab sets it to start and watch the server; leave it out")
        if flag == "log_level" and value.lower() in _QUIET:
            raise BadInput(
                f"--engine-arg {name}={value}: the cache is stated at info, and would not be seen; leave it out"
            )
        if flag in _FILE:
            raise BadInput(
                f"--engine-arg {name}: kvlab writes that file; name its entries, as"
                " --engine-arg kv_cache_config.host_cache_size=BYTES"
            )
        option = _OWN_OPTION.get(flag)
        if option is not None:
            raise BadInput(f"--engine-arg {name}={value} would overrule the plan; use {option} instead")
        if flag == _CACHE or not all(flag.split(".")):
            raise BadInput(f"--engine-arg {shortened(name)}: name an entry, as kv_cache_config.host_cache_size=BYTES")
        if name.startswith("-"):
            raise BadInput(f"--engine-arg {name}: write the flag without dashes, as {flag}=VALUE")
        near = None if flag in _OTHERS else misspelt(flag, _OWN_OPTION)
        if near is not None:
            raise BadInput(f"--engine-arg {shortened(flag)}: did you mean {_OWN_OPTION[near]}?")


def argument_doubts(ask: Ask) -> list[Doubt]:
    """Arguments that are passed on and may change the cache in a way that is not computed."""
    flags = dict.fromkeys(flag_name(name) for name, _ in ask.engine_args)
    text = "may change the cache in TensorRT-LLM; passed on, not computed"
    return [
        Doubt(flag, text)
        for flag in flags
        if flag not in _HARMLESS and (flag.startswith(_CACHE) or "kv" in flag.split("_") or "cache" in flag)
    ]


def in_file(name: str) -> bool:
    """Whether an argument is an entry of the YAML file: a dotted name."""
    return "." in name


def backend(ask: Ask) -> str:
    """ "pytorch" (the default) or "tensorrt". Raises BadInput for a backend that is not planned."""
    word = ask.arg("backend") or "pytorch"
    if word == "trt":
        return "tensorrt"
    if word not in ("pytorch", "tensorrt"):
        raise BadInput(f"--engine-arg backend={word} is not planned; use pytorch or tensorrt")
    return word
