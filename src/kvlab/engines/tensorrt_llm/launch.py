"""The `trtllm-serve` command of a plan and its YAML file, each setting with its trade-off."""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Carved, Deployment, Launcher
from kvlab.core.flags import passed_on, words
from kvlab.core.plan import Ask, Flag, Launch
from kvlab.engines.tensorrt_llm.arguments import flag_name, in_file
from kvlab.engines.tensorrt_llm.capacity import FRACTION
from kvlab.engines.tensorrt_llm.dtypes import setting
from kvlab.engines.tensorrt_llm.tiers import flags as offload_flags

CONFIG_FILE = "trtllm_config.yaml"
_CACHE = "kv_cache_config."


def _command(deployment: Deployment, carved: Carved, source: str) -> Launch:
    ask = deployment.ask
    settings = [*_cache(deployment, carved), *offload_flags(ask), *_watched()]
    settings += [_setting(flag_name(name), value) for name, value in ask.engine_args if in_file(name)]
    flags = [*_network(), *_limits(ask, carved), *_parallel(ask)]
    flags += [passed_on(flag_name(name), value) for name, value in ask.engine_args if not in_file(name)]
    flags.append(
        Flag(
            "--extra_llm_api_options",
            CONFIG_FILE,
            "settings that have no flag; newer releases also say --config",
        )
    )
    return Launch(
        argv=("trtllm-serve", source, *words(flags)),
        files={CONFIG_FILE: _yaml(settings)},
        flags=(*flags, *settings),
    )


def _network() -> list[Flag]:
    return [
        Flag("--host", "127.0.0.1", "loopback only; put a proxy with authentication in front to open it"),
        Flag("--port", "{port}", "where it listens"),
    ]


def _limits(ask: Ask, carved: Carved) -> list[Flag]:
    because = "longest request, prompt and answer; what the pool does not hold is lowered at the start, in one log line"
    flags = [Flag("--max_seq_len", str(carved.context), because)]
    if ask.max_num_seqs is not None:
        because = "requests in one batch: more throughput until the cache is full, then requests wait"
        flags.append(Flag("--max_batch_size", str(ask.max_num_seqs), because))
    if ask.max_num_batched_tokens is not None:
        because = "tokens of one step: larger is faster prefill, and the dry run takes more memory from the cache"
        flags.append(Flag("--max_num_tokens", str(ask.max_num_batched_tokens), because))
    return flags


def _parallel(ask: Ask) -> list[Flag]:
    rows = (
        ("--tp_size", ask.tp or 1, "splits heads and weights over GPUs: room for cache, paid in traffic"),
        ("--pp_size", ask.pp, "splits layers over GPUs: less traffic than tensors, idle stages at low load"),
        ("--ep_size", ask.ep, "spreads experts over GPUs; the cache stays as it is"),
    )
    return [Flag(name, str(size), because) for name, size, because in rows if size > 1]


def _cache(deployment: Deployment, carved: Carved) -> list[Flag]:
    ask, capacity = deployment.ask, carved.capacity
    fraction = ask.util if ask.util is not None else FRACTION
    settings = [
        Flag(
            _CACHE + "free_gpu_memory_fraction",
            f"{fraction:g}",
            "share of what the dry run leaves free: more cache against room for the workspaces of longer prompts",
        ),
        Flag(
            _CACHE + "dtype",
            setting(ask),
            "bytes per cached value: fp8 holds twice the tokens of bfloat16, nvfp4 3.6 times, and may cost accuracy",
        ),
        Flag(
            _CACHE + "enable_block_reuse",
            "false" if ask.prefix_caching is False else "true",
            "shared prefixes are computed once; off, every prompt is computed in full",
        ),
    ]
    if ask.pool_gib is not None and capacity is not None:
        because = "the pool in tokens; the smaller of this and the fraction is taken"
        settings.append(Flag(_CACHE + "max_tokens", str(capacity.tokens), because))
    if ask.block_size is not None:
        because = "tokens per block: small blocks share and waste less, a request takes whole ones"
        settings.append(Flag(_CACHE + "tokens_per_block", str(ask.block_size), because))
    return settings


def _watched() -> list[Flag]:
    return [
        Flag("return_perf_metrics", "true", "without it /prometheus/metrics is not served and nothing can be watched"),
        Flag("enable_iter_perf_stats", "true", "the cache's blocks per iteration; costs a little on every step"),
    ]


def _setting(name: str, value: str) -> Flag:
    return Flag(name, value, "passed on as given")


def _yaml(settings: list[Flag]) -> str:
    """Settings by their dotted names as a YAML file, with the reason above each."""
    tree: dict[str, list[Flag]] = {}
    for item in settings:
        head, _, rest = item.flag.partition(".")
        tree.setdefault(head if rest else "", []).append(Flag(rest or head, item.value, item.because))
    lines = [f"# trtllm-serve --extra_llm_api_options {CONFIG_FILE}"]
    for head, items in tree.items():
        lines += [f"{head}:"] if head else []
        for item in items:
            indent = "  " if head else ""
            lines += [f"{indent}# {item.because}", f"{indent}{item.flag}: {_scalar(item.value or '')}"]
    return "\n".join(lines) + "\n"


def _scalar(value: str) -> str:
    """A YAML value: numbers, booleans and JSON as they are, everything else quoted."""
    try:
        msgspec.json.decode(value)
    except msgspec.DecodeError:
        return msgspec.json.encode(value).decode()
    return value


def _binary(ask: Ask) -> tuple[str, ...] | None:
    import shutil

    path = shutil.which("trtllm-serve")
    return (path,) if path else None


LAUNCHER = Launcher(
    command=_command,
    ready_path="/health",
    default_port=8000,
    binary=_binary,
    missing="no trtllm-serve on PATH: run NVIDIA's container nvcr.io/nvidia/tensorrt-llm/release, or"
    " pip install tensorrt-llm on Linux with an NVIDIA GPU",
    images={"nvidia": "nvcr.io/nvidia/tensorrt-llm/release:{version}"},
    help_words=("serve", "--help"),
)
