"""The `lmdeploy serve api_server` command of a plan, each flag with its trade-off."""

from __future__ import annotations

from kvlab.core.engine import Carved, Deployment, Launcher
from kvlab.core.flags import passed_on, words
from kvlab.core.plan import Ask, Flag, Launch
from kvlab.engines.lmdeploy.arguments import Backend, backend
from kvlab.engines.lmdeploy.capacity import RATIO
from kvlab.engines.lmdeploy.dtypes import policy
from kvlab.engines.lmdeploy.versions import METRICS_ON, release


def _command(deployment: Deployment, carved: Carved, source: str) -> Launch:
    ask, engine = deployment.ask, backend(deployment.model, deployment.ask)
    flags = [*_network(), *_memory(deployment, carved, engine), *_scheduler(ask), *_seen(ask)]
    flags += [passed_on(name.replace("_", "-"), value) for name, value in ask.engine_args if name != "backend"]
    return Launch(argv=("lmdeploy", "serve", "api_server", source, *words(flags)), flags=tuple(flags))


def _network() -> list[Flag]:
    return [
        Flag("--server-name", "127.0.0.1", "loopback only; put a proxy with authentication in front to open it"),
        Flag("--server-port", "{port}", "where it listens"),
    ]


def _memory(deployment: Deployment, carved: Carved, engine: Backend) -> list[Flag]:
    ask, capacity = deployment.ask, carved.capacity
    ratio = ask.util if ask.util is not None else RATIO
    flags = [
        Flag("--backend", engine, "TurboMind is faster where it knows the model; PyTorch knows more models and dtypes"),
        Flag("--session-len", str(carved.context), "longest request: what the pool does not hold is cut at the start"),
    ]
    if ask.pool_gib is not None and capacity is not None and engine == "pytorch":
        because = "the pool in blocks, so the plan can be exact; free memory is no longer looked at"
        flags.append(Flag("--num-gpu-blocks", str(capacity.num_blocks), because))
    else:
        because = "share of what is free after the weights: more cache against room for activations and graphs"
        flags.append(Flag("--cache-max-entry-count", f"{ratio:g}", because))
    flags.append(
        Flag(
            "--quant-policy",
            str(policy(carved.kv.dtype).number),
            "0 keeps the model's dtype; 8 (int8) halves the cache, 4 (int4) quarters it, both with scales per token and"
            " head, and both may cost accuracy",
        )
    )
    if ask.block_size is not None:
        because = "tokens per block: small blocks share and waste less, kernels want multiples of 32"
        flags.append(Flag("--cache-block-seq-len", str(ask.block_size), because))
    return flags


def _scheduler(ask: Ask) -> list[Flag]:
    flags = []
    if (ask.tp or 1) > 1:
        because = "splits heads and weights over GPUs: room for cache, paid in traffic"
        flags.append(Flag("--tp", str(ask.tp), because))
    if ask.ep > 1:
        flags.append(Flag("--ep", str(ask.ep), "spreads experts over GPUs; the cache stays as it is"))
    if ask.max_num_seqs is not None:
        because = "requests decoded together: more throughput; runtime buffers and recurrent state grow with it"
        flags.append(Flag("--max-batch-size", str(ask.max_num_seqs), because))
    if ask.max_num_batched_tokens is not None:
        because = "tokens of one prefill step: larger is faster, and its logits take memory from the cache"
        flags.append(Flag("--max-prefill-token-num", str(ask.max_num_batched_tokens), because))
    if ask.prefix_caching:
        because = "shared prefixes are computed once; off unless asked for, and then every prompt is computed in full"
        flags.append(Flag("--enable-prefix-caching", None, because))
    return flags


def _seen(ask: Ask) -> list[Flag]:
    flags = [Flag("--log-level", "INFO", "the cache's size is not printed at WARNING, and a plan could not be checked")]
    if release(ask) < METRICS_ON:
        flags.append(Flag("--enable-metrics", None, "without it this release serves no /metrics"))
    return flags


def _binary(ask: Ask) -> tuple[str, ...] | None:
    import shutil

    path = shutil.which("lmdeploy")
    return (path,) if path else None


LAUNCHER = Launcher(
    command=_command,
    ready_path="/health",
    revision_flag="revision",
    default_port=23333,
    binary=_binary,
    missing="no lmdeploy on PATH: pip install lmdeploy (Linux with an NVIDIA GPU)",
    port_in="--server-port",
    help_words=("serve", "api_server", "--help"),
)
