"""Engine arguments: variables of `ollama serve` in capitals, parameters of the Modelfile in small letters."""

from __future__ import annotations

from kvlab.core.errors import BadInput, nearest, shortened
from kvlab.core.plan import Ask

_OWN_OPTION = {
    "OLLAMA_CONTEXT_LENGTH": "--context",
    "OLLAMA_NUM_PARALLEL": "--parallel",
    "OLLAMA_KV_CACHE_TYPE": "--kv-dtype",
    "num_ctx": "--context",
    "num_batch": "--ubatch",
}
_PARAMETERS = (
    # https://docs.ollama.com/modelfile and the options of its API
    *("num_gpu", "main_gpu", "num_thread", "num_keep", "num_predict", "use_mmap", "use_mlock", "seed", "stop"),
    *("temperature", "top_k", "top_p", "min_p", "tfs_z", "typical_p", "repeat_last_n", "repeat_penalty"),
    *("presence_penalty", "frequency_penalty", "mirostat", "mirostat_eta", "mirostat_tau", "draft_num_predict"),
)
_CHOSEN = ("OLLAMA_HOST", "OLLAMA_KEEP_ALIVE", "OLLAMA_MAX_LOADED_MODELS")
"""The address, and what keeps the planned model alone in memory."""


def own_name(name: str) -> str:
    """Ollama's own spelling: underscores, where the command line has dashes."""
    return name.lstrip("-").replace("-", "_")


def is_variable(name: str) -> bool:
    """Whether an argument is a variable of the environment: Ollama's own, or one that its llama-server reads."""
    return own_name(name).startswith(("OLLAMA_", "LLAMA_ARG_"))


def check_arguments(ask: Ask) -> None:
    """Raises BadInput for an engine argument that would overrule the plan, or that is neither of the two kinds."""
    for given, value in ask.engine_args:
        name = own_name(given)
        if name in _CHOSEN:
            raise BadInput(f"--engine-arg {name}: kvlab sets it to start and watch the server; leave it out")
        option = _OWN_OPTION.get(name)
        if option is not None:
            raise BadInput(f"--engine-arg {name}={value} would overrule the plan; use {option} instead")
        if not is_variable(name) and name not in _PARAMETERS:
            raise BadInput(
                f"--engine-arg {shortened(given)}: Ollama takes variables (OLLAMA_GPU_OVERHEAD=BYTES) and parameters of"
                f" a Modelfile (num_gpu=20); {nearest(name, (*_OWN_OPTION, *_PARAMETERS))}"
            )
