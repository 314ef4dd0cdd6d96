"""kv_cache_config.dtype: what each word stores, and which model and backend takes it."""

from __future__ import annotations

from kvlab.core.errors import BadInput, nearest
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.core.storage import Storage
from kvlab.engines.tensorrt_llm.arguments import backend

STORAGES = {
    storage.name: storage
    for storage in (
        Storage("float32", block_bytes=4),
        Storage("bfloat16", block_bytes=2),
        Storage("float16", block_bytes=2),
        Storage("fp8", block_bytes=1),
        Storage("int8", block_bytes=1),
        Storage("nvfp4", block_bytes=9, block_values=16),  # 16 values of 4 bits and their fp8 scale
    )
}
_PLAIN = ("float32", "bfloat16", "float16")


def resolve(model: Model, ask: Ask) -> Storage:
    """The storage of the asked word: "auto" is the checkpoint's own cache format, else its compute dtype.

    Raises BadInput for a word that TensorRT-LLM does not have, or that this model or backend cannot take.
    """
    word, own = ask.kv_dtype or "auto", compute_dtype(model)
    if word == "auto":
        word = model.kv_cache_format if model.kv_cache_format in STORAGES else own
    if word not in STORAGES:
        raise BadInput(f"TensorRT-LLM has no cache dtype {word!r}; {nearest(word, ('auto', *STORAGES))}")
    if word in _PLAIN and word != own:
        raise BadInput(f"TensorRT-LLM caches {model.name} in {own}, the dtype it computes in, not in {word}; use auto")
    if word == "int8" and backend(ask) != "tensorrt":
        raise BadInput(
            "TensorRT-LLM's PyTorch backend has no int8 cache; use fp8, or --engine-arg backend=tensorrt with an engine"
        )
    return STORAGES[word]


def compute_dtype(model: Model) -> str:
    """The dtype that the model computes in. A config that names none is served in bfloat16."""
    return model.dtype if model.dtype in ("float16", "float32") else "bfloat16"


def setting(ask: Ask) -> str:
    """What goes into the YAML file: plain dtypes are the model's own, which "auto" stands for."""
    return "auto" if ask.kv_dtype is None or ask.kv_dtype in _PLAIN else ask.kv_dtype
