"""The `python -m sglang.launch_server` command of a plan, each flag with its trade-off."""

from __future__ import annotations

import sys

from kvlab.core.engine import Carved, Deployment, Launcher
from kvlab.core.flags import passed_on, words
from kvlab.core.plan import Ask, Flag, Launch
from kvlab.engines.sglang.arguments import FRACTION
from kvlab.engines.sglang.dtypes import accepted
from kvlab.engines.sglang.pools import pooled, sized
from kvlab.engines.sglang.tiers import completed
from kvlab.engines.sglang.tiers import flags as offload_flags
from kvlab.engines.sglang.versions import release

_PORT = 30000
_MODULE = "sglang.launch_server"


def _command(deployment: Deployment, carved: Carved, source: str) -> Launch:
    flags = [
        Flag("--model-path", source, "the folder or Hub id of the checkpoint"),
        *_network(),
        *_memory(deployment, carved),
        *_parallel(deployment.ask),
        *_scheduler(deployment.ask),
        *offload_flags(deployment.ask),
    ]
    pinned = {flag.flag for flag in flags}
    flags += [flag for name, value in deployment.ask.engine_args if (flag := passed_on(name, value)).flag not in pinned]
    launch = Launch(argv=("python", "-m", _MODULE, *words(flags)), flags=tuple(flags))
    return completed(launch, deployment.ask)


def _network() -> list[Flag]:
    return [
        Flag("--host", "127.0.0.1", "loopback only; put a proxy with authentication in front to open it"),
        Flag("--port", "{port}", "where it listens"),
        Flag("--enable-metrics", None, "without it /metrics is not served and nothing can be watched"),
        Flag("--enable-cache-report", None, "answers state how many prompt tokens came from the cache"),
    ]


def _memory(deployment: Deployment, carved: Carved) -> list[Flag]:
    ask = deployment.ask
    because = "longest request: SGLang starts even if none of this length fits, and then refuses such requests"
    flags = [Flag("--context-length", str(carved.context), because)]
    if ask.pool_gib is not None:
        flags += _pinned_pool(deployment, carved)
    elif deployment.share is not None:
        because = (
            "share of the free memory for weights and cache, pinned because its default changes between releases: more"
            " cache against room for activations and CUDA graphs"
        )
        flags.append(Flag(f"--{FRACTION}", f"{deployment.share:g}", because))
    word = ask.kv_dtype if ask.kv_dtype in accepted(release(ask)) else None
    because = "bytes per cached value: fp8 holds twice the tokens of bfloat16, and may cost accuracy on long contexts"
    flags.append(Flag("--kv-cache-dtype", word or "auto", because))
    if ask.block_size is not None:
        because = "tokens per page: small pages share and waste less, some kernels need large ones"
        flags.append(Flag("--page-size", str(ask.block_size), because))
    return flags


def _pinned_pool(deployment: Deployment, carved: Carved) -> list[Flag]:
    """A pool in bytes as limits that SGLang has: tokens, and slots of recurrent state."""
    if carved.capacity is None or carved.capacity.tokens <= 0 or deployment.pool_bytes is None:
        return []
    ask, pools = deployment.ask, pooled(deployment)
    sizes = sized(pools, deployment.pool_bytes, ask)
    # Before 0.5.12 the limit counts tokens before they are split into pools.
    tokens = sizes.profiled if pools.window else carved.capacity.tokens
    flags = []
    if ask.arg("max-total-tokens") is None:
        because = "the pool in tokens, so that the plan can be exact; SGLang takes fewer when less memory is free"
        flags.append(Flag("--max-total-tokens", str(tokens), because))
    if sizes.slots and ask.arg("max-mamba-cache-size") is None:
        because = "slots of recurrent state, taken from the memory of the cache: each running request holds several"
        flags.append(Flag("--max-mamba-cache-size", str(sizes.slots), because))
    return flags


def _parallel(ask: Ask) -> list[Flag]:
    rows = (
        ("--tp-size", ask.tp or 1, "splits heads and weights over GPUs: room for cache, paid in traffic"),
        ("--pp-size", ask.pp, "splits layers over GPUs: less traffic than tensors, idle stages at low load"),
        ("--dp-size", ask.dp, "independent copies: throughput times the copies, cache per copy unchanged"),
        ("--ep-size", ask.ep, "spreads experts over the GPUs; the cache stays as it is"),
    )
    return [Flag(name, str(size), because) for name, size, because in rows if size > 1]


def _scheduler(ask: Ask) -> list[Flag]:
    flags = []
    if ask.max_num_batched_tokens is not None:
        because = "tokens of one prefill step: larger is faster prefill, and needs more memory beside the cache"
        flags.append(Flag("--chunked-prefill-size", str(ask.max_num_batched_tokens), because))
    if ask.max_num_seqs is not None:
        because = "requests decoded together: more throughput until the cache is full, then requests are retracted"
        flags.append(Flag("--max-running-requests", str(ask.max_num_seqs), because))
    if ask.prefix_caching is False:
        because = "no prefix is kept: every prompt is computed in full, recurrent models hold one state a request"
        flags.append(Flag("--disable-radix-cache", None, because))
    return flags


def _binary(ask: Ask) -> tuple[str, ...] | None:
    from importlib.util import find_spec

    return (sys.executable,) if find_spec("sglang") is not None else None


LAUNCHER = Launcher(
    command=_command,
    ready_path="/health",
    revision_flag="revision",
    default_port=_PORT,
    binary=_binary,
    missing="no sglang in this Python: pip install sglang (Linux with a GPU), or start it in its container and attach",
    images={"nvidia": "lmsysorg/sglang:v{version}"},
    image_program="python3",
    help_words=("-m", "sglang.launch_server", "--help"),
)
