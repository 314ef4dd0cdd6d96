"""A script that serves one model with Ollama, its Modelfile and the plan's variables, each with its trade-off."""

from __future__ import annotations

import os
import re
import sys

from kvlab.core.engine import Carved, Deployment, Launcher
from kvlab.core.plan import Ask, Flag, Launch
from kvlab.engines.ollama.arguments import is_variable, own_name
from kvlab.engines.ollama.capacity import shape_of, storage
from kvlab.engines.ollama.context import served
from kvlab.engines.ollama.serving import MODEL

SCRIPT, MODELFILE = "serve.sh", "Modelfile"
_SHARD = re.compile(r"-00001-of-(\d{5}\.gguf)$")
# `ollama serve` alone has no model of the plan's. A split GGUF is named by a wildcard:
# https://docs.ollama.com/modelfile
_SERVE = f"""#!/bin/sh
# serve.sh MODELFILE MODEL: starts Ollama, makes the model "{MODEL}" of both and loads it.
set -eu
made=$(mktemp)
{{ echo "FROM $2" | sed 's/-00001-of-\\([0-9]*[.]gguf\\)$/-*-of-\\1/'; grep -v '^FROM ' "$1"; }} > "$made"
ollama serve &
server=$!
trap 'kill "$server" 2> /dev/null || true; wait "$server" || true; rm -f "$made"' EXIT
trap 'exit 143' INT TERM
until ollama list > /dev/null 2>&1; do kill -0 "$server"; sleep 1; done
ollama create {MODEL} -f "$made"  # copies the weights into Ollama's store (OLLAMA_MODELS)
ollama run {MODEL} < /dev/null > /dev/null
wait "$server"
"""


def _command(deployment: Deployment, carved: Carved, source: str) -> Launch:
    ask = deployment.ask
    held, stored = served(deployment), storage(ask)
    shape = shape_of(deployment, held, stored)
    model = os.path.abspath(source if os.path.exists(source) else os.path.basename(source))
    variables = [*_variables(stored.name, held.num_ctx, held.slots)]
    variables += [
        Flag(own_name(name), value, "passed on as given") for name, value in ask.engine_args if is_variable(name)
    ]
    parameters = [
        Flag("num_ctx", str(held.num_ctx), "the same for this model: memory grows with it, times the requests"),
        Flag("num_batch", str(shape.ubatch), "tokens of a micro-batch: faster prefill, larger buffers and windows"),
    ]
    parameters += [
        Flag(own_name(name), value, "passed on as given") for name, value in ask.engine_args if not is_variable(name)
    ]
    return Launch(
        argv=("sh", SCRIPT, MODELFILE, model),
        env={flag.flag: flag.value or "" for flag in variables},
        files={SCRIPT: _SERVE, MODELFILE: _modelfile(model, parameters)},
        flags=(*variables, *(Flag(f"PARAMETER {flag.flag}", flag.value, flag.because) for flag in parameters)),
        lacks=None if os.path.exists(source) else _missing(source, model),
    )


def _variables(dtype: str, num_ctx: int, slots: int) -> list[Flag]:
    flags = [
        Flag("OLLAMA_HOST", "127.0.0.1:{port}", "loopback only; put a proxy with authentication in front to open it"),
        Flag("OLLAMA_CONTEXT_LENGTH", str(num_ctx), "what a request may hold; longer prompts are cut without an error"),
        Flag("OLLAMA_NUM_PARALLEL", str(slots), "requests decoded together: each gets a cache of the whole context"),
        Flag("OLLAMA_KV_CACHE_TYPE", dtype, "storage of the cache: smaller blocks buy context, and cost accuracy"),
        Flag("OLLAMA_KEEP_ALIVE", "-1", "the model stays loaded; by default it is unloaded after five idle minutes"),
        Flag("OLLAMA_MAX_LOADED_MODELS", "1", "a second model would take the memory that this plan counts on"),
    ]
    if dtype not in ("f16", "bf16", "f32"):
        because = "quantised values need it: without it older releases go back to f16 with a warning, newer ones fail"
        flags.append(Flag("OLLAMA_FLASH_ATTENTION", "1", because))
    return flags


def _missing(source: str, model: str) -> str:
    """Ollama itself would look for a Hub id in its own registry, where another model may have that name."""
    if "/" in source:
        return f"Ollama reads a model of this machine: hf download {source} --local-dir {model}"
    return f"Ollama reads a GGUF file, or a folder with weights: put one at {model}"


def _modelfile(model: str, parameters: list[Flag]) -> str:
    shards = _SHARD.sub(r"-*-of-\1", model)
    lines = [f"# ollama create {MODEL} -f {MODELFILE} && ollama run {MODEL}", f"FROM {shards}"]
    for flag in parameters:
        lines += [f"# {flag.because}", f"PARAMETER {flag.flag} {flag.value}"]
    return "\n".join(lines) + "\n"


def _binary(ask: Ask) -> tuple[str, ...] | None:
    import shutil

    path = shutil.which("ollama")
    return (sys.executable, "-m", "kvlab.engines.ollama.serving", path) if path else None


LAUNCHER = Launcher(
    command=_command,
    ready_path=f"/v1/models/{MODEL}",
    default_port=11434,
    every_gpu=True,
    binary=_binary,
    missing="no ollama on PATH: install it from https://ollama.com/download",
    port_in="OLLAMA_HOST",
    takes_hub_ids=False,
    images={"nvidia": "ollama/ollama:{version}", "amd": "ollama/ollama:{version}-rocm"},
)
