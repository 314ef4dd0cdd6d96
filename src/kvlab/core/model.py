"""The facts of a published model, parsed once."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["computed", "read", "measured", "estimated"]
"""Where a number comes from: exact arithmetic, the engine's own words, a measurement, or an estimate with a range."""


class Doubt(msgspec.Struct, frozen=True):
    """Something that may change the answer and was not understood: the config key, and what it could mean."""

    key: str
    text: str


class Origin(msgspec.Struct, frozen=True):
    """Where the facts came from."""

    name: str
    kind: Literal["hub", "folder", "config", "gguf"]
    revision: str | None = None


class Tensor(msgspec.Struct, frozen=True):
    """A tensor of a checkpoint, or `copies` of one shape, as far as it bears on what each rank loads."""

    name: str
    """As the checkpoint names it; the language model's layers hold `layers.N.` (or `h.N.`, `blocks.N.`)."""
    bytes: int
    """All copies together."""
    rows: int = 1
    """Outputs of a matrix, entries of a table or a vector."""
    columns: int = 1
    """Inputs of a matrix; 1 for a vector."""
    copies: int = 1


class Weights(msgspec.Struct, frozen=True):
    """Bytes of the checkpoint, all ranks together."""

    bytes: int
    kind: Kind
    because: str
    low: int | None = None
    """The least that an engine may load, when it is not known exactly; None: `bytes`."""
    high: int | None = None
    """The most; None: `bytes`."""
    tensors: tuple[Tensor, ...] = ()
    """What the bytes are made of; empty when only their sum is known."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What the planner, the launcher and the report need to know of a config."""

    name: str
    model_type: str
    architectures: tuple[str, ...] = ()
    dtype: str | None = None
    """The checkpoint's compute dtype in torch's words ("bfloat16"); None when the config does not say."""
    context: int | None = None
    """Native context in tokens; None when the config does not say."""
    original_context: int | None = None
    """Tokens before LongRoPE stretches the context, which vLLM takes for its default; None for other models."""
    layers: int = 0
    hidden: int | None = None
    heads: int | None = None
    vocab: int | None = None
    weight_format: str | None = None
    """"gguf", or the quantisation method that the config declares; None for plain weights."""
    kv_cache_format: str | None = None
    """The cache format that the checkpoint itself asks for ("fp8"), if it does."""
    ffn: int | None = None
    """Width of the widest dense MLP; None when no key states one."""
    experts_per_token: int | None = None
    """Routed experts that one token visits; None for dense models."""
    expert_ffn: int | None = None
    """Width of one routed expert."""
    scan_chunk: int | None = None
    """Tokens that a Mamba kernel scans at a time; None when no key states it."""
    vision: tuple[int | None, int | None] | None = None
    """num_hidden_layers and hidden_size of the vision_config, each None where it has none; None without one."""
