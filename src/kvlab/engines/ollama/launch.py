"""`ollama serve` with a plan's variables, and the Modelfile of the model that it serves, each with its trade-off."""

from __future__ import annotations

import sys

from kvlab.core.engine import Carved, Deployment, Launcher
from kvlab.core.plan import Ask, Flag, Launch
from kvlab.engines.ollama.arguments import is_variable
from kvlab.engines.ollama.capacity import shape_of, storage
from kvlab.engines.ollama.context import served
from kvlab.engines.ollama.serving import MODEL

MODELFILE = "Modelfile"


def _command(deployment: Deployment, carved: Carved, source: str) -> Launch:
    ask = deployment.ask
    held, stored = served(deployment), storage(ask)
    shape = shape_of(deployment, held, stored)
    variables = [*_variables(stored.name, held.num_ctx, held.slots)]
    variables += [Flag(name, value, "passed on as given") for name, value in ask.engine_args if is_variable(name)]
    parameters = [
        Flag("num_ctx", str(held.num_ctx), "the same for this model: memory grows with it, times the requests"),
        Flag("num_batch", str(shape.ubatch), "tokens of a micro-batch: faster prefill, larger buffers and windows"),
    ]
    parameters += [Flag(name, value, "passed on as given") for name, value in ask.engine_args if not is_variable(name)]
    return Launch(
        argv=("ollama", "serve"),
        env={flag.flag: flag.value or "" for flag in variables},
        files={MODELFILE: _modelfile(source, parameters)},
        flags=(*variables, *(Flag(f"PARAMETER {flag.flag}", flag.value, flag.because) for flag in parameters)),
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


def _modelfile(source: str, parameters: list[Flag]) -> str:
    lines = [f"# ollama create {MODEL} -f {MODELFILE} && ollama run {MODEL}", f"FROM {source}"]
    for flag in parameters:
        lines += [f"# {flag.because}", f"PARAMETER {flag.flag} {flag.value}"]
    return "\n".join(lines) + "\n"


def _binary(ask: Ask) -> tuple[str, ...] | None:
    import shutil

    path = shutil.which("ollama")
    return (sys.executable, "-m", "kvlab.engines.ollama.serving", path, MODELFILE) if path else None


LAUNCHER = Launcher(
    command=_command,
    ready_path=f"/v1/models/{MODEL}",
    default_port=11434,
    binary=_binary,
    missing="no ollama on PATH: install it from https://ollama.com/download",
    port_in="OLLAMA_HOST",
    images={"nvidia": "ollama/ollama:{version}", "amd": "ollama/ollama:{version}-rocm"},
)
