"""The llama-server command of a plan, each flag with its trade-off."""

from __future__ import annotations

import os
import sys

from kvlab.core.engine import Carved, Deployment, Launcher
from kvlab.core.plan import Ask, Flag, Launch
from kvlab.engines._llama.cells import AUTO_SLOTS, UBATCH
from kvlab.engines.llamacpp.tiers import flags as offload_flags

EMBEDDED = "embedded"
"""`--engine-arg embedded=true`: use the xllamacpp wheel even when a llama-server is on PATH."""
_EMBEDDED_SERVER = "kvlab.engines.llamacpp.embedded"


def _command(deployment: Deployment, carved: Carved, source: str) -> Launch:
    ask, capacity = deployment.ask, carved.capacity
    assert capacity is not None  # llama.cpp's caches are asked for, so they are always known
    slots = _planned(carved, "slots", ask.parallel or AUTO_SLOTS)
    unified = capacity.tokens == _planned(carved, "n_ctx_seq", capacity.tokens) and slots > 1
    key, _, value = carved.kv.dtype.partition("/")
    flags = [
        Flag("--model", source, "the GGUF file"),
        Flag("--ctx-size", str(capacity.tokens), "cells of the cache: memory grows with it, longer requests fit"),
        Flag("--parallel", str(slots), "requests decoded together: throughput against the share that each slot gets"),
        Flag(
            "--kv-unified" if unified else "--no-kv-unified",
            None,
            "one pool for all slots: a long request may take it all, and a full pool stops every slot"
            if unified
            else "each slot owns its share: no request can crowd out another, none can be longer than its share",
        ),
        Flag("--cache-type-k", key, "storage of keys: smaller blocks buy context and slots, and cost accuracy"),
        Flag("--cache-type-v", value or key, "storage of values: quantised values need flash attention"),
        Flag(
            "--ubatch-size",
            str(ask.ubatch or UBATCH),
            "tokens per micro-batch: sets the compute buffer and the window cells",
        ),
        Flag("--host", "127.0.0.1", "loopback only; put a proxy with authentication in front to open it"),
        Flag("--port", "{port}", "where it listens"),
        Flag("--metrics", None, "without it /metrics answers 501 and nothing can be watched"),
        Flag("--slots", None, "the only place where cache use can be read from"),
        Flag("--log-verbosity", "4", "the cache sizes are not printed below 4, and a plan could not be checked"),
    ]
    if ask.swa_full:
        flags.append(
            Flag("--swa-full", None, "window layers keep the whole context: prefixes can be reused, memory grows")
        )
    if ask.prefix_caching is False:
        flags.append(Flag("--no-cache-prompt", None, "every prompt is read in full: shared prefixes are paid again"))
    flags += offload_flags(ask)
    flags += [_passed_on(name, value) for name, value in ask.engine_args if name != EMBEDDED]
    return Launch(argv=("llama-server", *_words(flags)), flags=tuple(flags))


def _passed_on(name: str, value: str) -> Flag:
    """A flag without an option of its own. llama-server's switches take no value: "true" stands for the bare flag."""
    return Flag(f"--{name}", None if value == "true" else value, "passed on as given")


def _planned(carved: Carved, name: str, otherwise: int) -> int:
    return next((int(row.value) for row in carved.expects if row.name == name), otherwise)


def _words(flags: list[Flag]) -> list[str]:
    words = []
    for flag in flags:
        words.append(flag.flag)
        if flag.value is not None and flag.value != "":
            words.append(flag.value)
    return words


def _binary(ask: Ask) -> tuple[str, ...] | None:
    import shutil
    from importlib.util import find_spec

    path = os.environ.get("LLAMA_SERVER") or shutil.which("llama-server")
    if path and ask.arg(EMBEDDED) is None:
        return (path,)
    if find_spec("xllamacpp") is not None:
        return (sys.executable, "-m", _EMBEDDED_SERVER)
    return None


LAUNCHER = Launcher(
    command=_command,
    ready_path="/health",
    default_port=8080,
    every_gpu=True,
    binary=_binary,
    missing="no llama-server on PATH and no embedded one: install it, or pip install 'kvlab[demo]'",
    images={
        "nvidia": "ghcr.io/ggml-org/llama.cpp:server-cuda13-{version}",
        "amd": "ghcr.io/ggml-org/llama.cpp:server-rocm-{version}",
    },
    image_program="/app/llama-server",
    help_words=("--help",),
    unlisted=(_EMBEDDED_SERVER,),
)
