"""GGUF metadata -> Config: the keys of the model's architecture, without its prefix and without the vocabulary."""

from __future__ import annotations

from kvlab.core.config import Config
from kvlab.core.errors import BadInput
from kvlab.source.gguf_file import Skipped


def architecture(metadata: dict[str, object], where: str) -> str:
    """general.architecture. Raises BadInput when the file states none or is no model."""
    kind = metadata.get("general.type")
    if kind in ("adapter", "imatrix", "mmproj"):
        raise BadInput(f"{where} is a GGUF of type {kind}, not a model; give the model's file")
    arch = metadata.get("general.architecture")
    if not isinstance(arch, str) or not arch:
        raise BadInput(f"{where} has no general.architecture; it is no model, or damaged")
    return arch


def config(metadata: dict[str, object], where: str) -> Config:
    """The architecture's keys, and `vocab_size` from the token list where it is not stated."""
    arch = architecture(metadata, where)
    prefix = arch + "."
    values = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    values["general.architecture"] = arch
    tokens = metadata.get("tokenizer.ggml.tokens")
    if "vocab_size" not in values and isinstance(tokens, Skipped):
        values["vocab_size"] = tokens.length
    return Config(values, where)
