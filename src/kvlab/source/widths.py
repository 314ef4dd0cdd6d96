"""Widths of a model's MLPs, from which engines' working memory follows."""

from __future__ import annotations

from kvlab.core.config import Config

# fmt: off
_FFN = (
    "intermediate_size_mlp", "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "dense_intermediate_size",
)
_EXPERT_FFN = ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_intermediate_size")
_EXPERTS_PER_TOKEN = (
    "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k_experts", "experts_per_token",
)
# fmt: on


def ffn(config: Config) -> int | None:
    """Width of the widest dense MLP; None when no key states one."""
    return _widest(config, *_FFN)


def expert_ffn(config: Config) -> int | None:
    """Width of one routed expert; None when no key of its own states it."""
    return _widest(config, *_EXPERT_FFN)


def experts_per_token(config: Config) -> int | None:
    """Routed experts that one token visits; None for dense models."""
    return _widest(config, *_EXPERTS_PER_TOKEN)


_MOST = 10_000_000


def scan_chunk(config: Config) -> int | None:
    """Tokens that a Mamba kernel scans at a time; None when no key states it."""
    return _widest(config, "mamba_chunk_size", "chunk_size")


def _widest(config: Config, *keys: str) -> int | None:
    """The first of the keys that holds a size, or a list of them, one for each layer; None when none does.

    Raises BadInput for a size beyond any model's: memory and time that follow from it would be absurd.
    """
    for key in keys:
        value = config.peek(key)
        sizes = [size for size in (value if isinstance(value, list) else [value]) if type(size) is int and size > 0]
        if sizes and max(sizes) > _MOST:
            raise config.bad(key, max(sizes), f"a whole number up to {_MOST:,}")
        if sizes:
            return max(sizes)
    return None
