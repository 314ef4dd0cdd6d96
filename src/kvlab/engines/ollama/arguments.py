"""Engine arguments: variables of `ollama serve` in capitals, parameters of the Modelfile in small letters."""

from __future__ import annotations

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask

_OWN_OPTION = {
    "OLLAMA_CONTEXT_LENGTH": "--context",
    "OLLAMA_NUM_PARALLEL": "--parallel",
    "OLLAMA_KV_CACHE_TYPE": "--kv-dtype",
    "num_ctx": "--context",
    "num_batch": "--ubatch",
}
_CHOSEN = ("OLLAMA_HOST", "OLLAMA_KEEP_ALIVE", "OLLAMA_MAX_LOADED_MODELS")
"""The address, and what keeps the planned model alone in memory."""


def is_variable(name: str) -> bool:
    """Whether an argument is a variable of the environment: Ollama's own, or one that its llama-server reads."""
    return name.startswith(("OLLAMA_", "LLAMA_ARG_"))


def check_arguments(ask: Ask) -> None:
    """Raises BadInput for an engine argument that would overrule the plan, or that is neither of the two kinds."""
    for name, value in ask.engine_args:
        if name in _CHOSEN:
            raise BadInput(f"--engine-arg {name}: kvlab sets it to start and watch the server; leave it out")
        option = _OWN_OPTION.get(name)
        if option is not None:
            raise BadInput(f"--engine-arg {name}={value} would overrule the plan; use {option} instead")
        if not is_variable(name) and not (name.isidentifier() and name.islower()):
            raise BadInput(
                f"--engine-arg {name}: Ollama takes variables (OLLAMA_GPU_OVERHEAD=BYTES) and parameters of a Modelfile"
                " (num_gpu=20)"
            )
