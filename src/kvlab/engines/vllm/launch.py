"""The `vllm serve` command of a plan, each flag with its trade-off, and the same as a config file."""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Carved, Deployment, Launcher
from kvlab.core.flags import words
from kvlab.core.plan import Ask, Flag, Launch
from kvlab.core.units import GIB
from kvlab.engines.vllm.capacity import PLANNER as _PLANNER
from kvlab.engines.vllm.defaults import batched_tokens, sequences
from kvlab.engines.vllm.offload import completed
from kvlab.engines.vllm.offload import flags as offload_flags
from kvlab.engines.vllm.platform import on_cpu

CONFIG_FILE = "vllm_config.yaml"
_PORT = 8000


def _command(deployment: Deployment, carved: Carved, source: str) -> Launch:
    model = source
    flags = [*_network(), *_memory(deployment, carved), *_parallel(deployment.ask), *_scheduler(deployment, carved)]
    flags += offload_flags(deployment.ask)
    flags += [_passed_on(name, value) for name, value in deployment.ask.engine_args]
    launch = Launch(
        argv=("vllm", "serve", model, *words(flags)),
        env=_environment(deployment),
        files={CONFIG_FILE: _config(model, flags)},
        flags=tuple(flags),
    )
    return completed(launch, deployment)


def _network() -> list[Flag]:
    return [
        Flag("--host", "127.0.0.1", "loopback only; put a proxy with authentication in front to open it"),
        Flag("--port", "{port}", "where it listens"),
        Flag("--enable-prompt-tokens-details", None, "answers state how many prompt tokens came from the cache"),
    ]


def _memory(deployment: Deployment, carved: Carved) -> list[Flag]:
    ask = deployment.ask
    flags = [
        Flag(
            "--max-model-len",
            str(carved.context),
            "longest request: vLLM starts only if one of this length fits, and a longer one lowers the concurrency",
        )
    ]
    if ask.pool_gib is None:
        util = ask.util if ask.util is not None else _PLANNER.default_util(ask)
        because = "share of device memory that vLLM claims: more cache against room for other processes and spikes"
        flags.append(Flag("--gpu-memory-utilization", f"{util:g}", because))
    elif deployment.pool_bytes is not None and not _cpu_gibibytes(deployment):
        because = "the pool to the byte, so the plan can be exact; profiling no longer protects from running out"
        flags.append(Flag("--kv-cache-memory-bytes", str(deployment.pool_bytes), because))
    flags.append(
        Flag(
            "--kv-cache-dtype",
            ask.kv_dtype or "auto",
            "bytes per cached value: fp8 holds twice the tokens of bfloat16, and may cost accuracy on long contexts",
        )
    )
    if ask.block_size is not None:
        because = "tokens per block: small blocks share and waste less, some kernels need large ones"
        flags.append(Flag("--block-size", str(ask.block_size), because))
    return flags


def _parallel(ask: Ask) -> list[Flag]:
    rows = (
        ("--tensor-parallel-size", ask.tp or 1, "splits heads and weights over GPUs: room for cache, paid in traffic"),
        (
            "--pipeline-parallel-size",
            ask.pp,
            "splits layers over GPUs: less traffic than tensors, idle stages at low load",
        ),
        ("--data-parallel-size", ask.dp, "independent copies: throughput times the copies, cache per copy unchanged"),
        (
            "--decode-context-parallel-size",
            ask.dcp,
            "spreads a request's tokens over ranks that hold the same KV heads",
        ),
    )
    flags = [Flag(name, str(size), because) for name, size, because in rows if size > 1]
    if ask.ep > 1:
        flags.append(Flag("--enable-expert-parallel", None, "spreads experts over GPUs; the cache stays as it is"))
    return flags


def _scheduler(deployment: Deployment, carved: Carved) -> list[Flag]:
    ask, flags = deployment.ask, []
    if ask.max_num_batched_tokens is not None or deployment.layout.windowed:
        batched = batched_tokens(ask, deployment.layout, deployment.gpu, carved.context)
        because = (
            "tokens per step: larger is faster prefill, and takes memory from the cache; windows keep room for it"
            if deployment.layout.windowed
            else "tokens per step: larger is faster prefill, and takes memory from the cache"
        )
        flags.append(Flag("--max-num-batched-tokens", str(batched), because))
    blocks = carved.capacity.num_blocks if carved.capacity and any(deployment.layout.only("state")) else None
    if ask.max_num_seqs is None and blocks is not None and 0 < blocks < sequences(ask, deployment.gpu):
        because = "every running request needs a block for its recurrent state; vLLM's default is refused here"
        flags.append(Flag("--max-num-seqs", str(blocks), because))
    if ask.max_num_seqs is not None:
        because = "requests decoded together: more throughput until the cache is full, then preemptions"
        flags.append(Flag("--max-num-seqs", str(ask.max_num_seqs), because))
    if ask.prefix_caching is not None:
        because = "shared prefixes are computed once; off, every prompt is computed in full"
        name = "--enable-prefix-caching" if ask.prefix_caching else "--no-enable-prefix-caching"
        flags.append(Flag(name, None, because))
    if ask.mamba_cache_mode is not None:
        because = "align keeps recurrent states at block ends so that prefixes can be reused; none keeps one state"
        flags.append(Flag("--mamba-cache-mode", ask.mamba_cache_mode, because))
    return flags


def _passed_on(name: str, value: str) -> Flag:
    word = value.strip().lower()
    if word in ("", "true"):
        return Flag(f"--{name}", None, "passed on as given")
    if word == "false":
        return Flag(f"--no-{name}", None, "passed on as given")
    return Flag(f"--{name}", value, "passed on as given")


def _cpu_gibibytes(deployment: Deployment) -> int | None:
    """Whole GiB of a CPU pool, which is all that VLLM_CPU_KVCACHE_SPACE can say."""
    pool = deployment.pool_bytes
    if not on_cpu(deployment.gpu) or deployment.ask.pool_gib is None or not pool or pool % GIB:
        return None
    return pool // GIB


def _environment(deployment: Deployment) -> dict[str, str]:
    gibibytes = _cpu_gibibytes(deployment)
    return {"VLLM_CPU_KVCACHE_SPACE": str(gibibytes)} if gibibytes else {}


def _config(model: str, flags: list[Flag]) -> str:
    """The same flags for `vllm serve --config`: long names without dashes, one a line, with the reason above each."""
    lines = [f"# vllm serve --config {CONFIG_FILE}", f"model: {_quoted(model)}"]
    for flag in flags:
        name = flag.flag.removeprefix("--")
        value = str(_PORT) if flag.value == "{port}" else flag.value
        lines.append(f"# {flag.because}")
        if value is None:
            negated = name.startswith("no-")
            lines.append(f"{name.removeprefix('no-')}: {'false' if negated else 'true'}")
        else:
            lines.append(f"{name}: {_scalar(value)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A YAML string: JSON's quoting is valid YAML."""
    return msgspec.json.encode(text).decode()


def _scalar(value: str) -> str:
    """A YAML scalar: numbers as they are, everything else quoted."""
    return value if value.replace(".", "", 1).isdigit() else _quoted(value)


def _binary(ask: Ask) -> tuple[str, ...] | None:
    import shutil

    path = shutil.which("vllm")
    return (path,) if path else None


LAUNCHER = Launcher(
    command=_command,
    ready_path="/health",
    revision_flag="revision",
    default_port=_PORT,
    binary=_binary,
    missing="no vllm on PATH: pip install vllm (Linux with a GPU); for a CPU, kvlab's repository has"
    " scripts/setup_vllm_cpu.sh",
    images={"nvidia": "vllm/vllm-openai:v{version}", "amd": "vllm/vllm-openai-rocm:v{version}"},
    help_words=("serve", "--help=all"),
)
