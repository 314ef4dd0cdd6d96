"""Config keys -> Model: the facts that the planner, the launcher and the report need besides the cache."""

from __future__ import annotations

from kvlab.core.attention import HEADS, HIDDEN
from kvlab.core.config import LAYER_KEYS, Config
from kvlab.core.family import Understood
from kvlab.core.model import Model

_CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "seq_length",
    "max_seq_len",
    "max_sequence_length",
    "model_max_length",
    "n_ctx",
    "context_length",
    "max_seq_length",
)
_SCALED = ("linear", "dynamic")
"""Rope scalings that stretch max_position_embeddings; yarn, llama3 and longrope configs state the stretched length."""


def model(root: Config, name: str, understood: Understood) -> Model:
    """The facts of a config that a family has claimed."""
    config = root.language()
    layers = _count(config, *LAYER_KEYS)
    return Model(
        name=name,
        model_type=_word(config, "model_type") or _word(root, "model_type") or "unknown",
        architectures=_names(root) or _names(config),
        dtype=_dtype(config) or _dtype(root),
        context=context(config),
        original_context=original_context(config),
        layers=layers or 1 + max((layer for row in understood.layout.rows for layer in row.layers), default=-1),
        hidden=_count(config, *HIDDEN),
        heads=_count(config, *HEADS),
        vocab=_count(config, "vocab_size", "padded_vocab_size"),
        weight_format=weight_format(config) or weight_format(root),
        kv_cache_format=kv_cache_format(config) or kv_cache_format(root),
    )


def context(config: Config) -> int | None:
    """Native context in tokens; linear and dynamic rope scaling multiply the stated length."""
    stated = config.maybe(*_CONTEXT)
    if stated is None:
        return None
    scaling = config.sub("rope_scaling", "rope_parameters")
    kind = scaling and (scaling.peek("rope_type") or scaling.peek("type"))
    factor = scaling.peek("factor") if scaling else None
    if kind in _SCALED and isinstance(factor, int | float) and not isinstance(factor, bool) and 1 <= factor <= 1000:
        if str(config.peek("model_type")).startswith("gemma3"):
            return stated
        return int(stated * factor)
    return stated


def original_context(config: Config) -> int | None:
    """Tokens before LongRoPE stretches the context; None for other models."""
    scaling = config.sub("rope_scaling", "rope_parameters")
    if scaling is None or (scaling.peek("rope_type") or scaling.peek("type")) not in ("su", "longrope"):
        return None
    return config.maybe("original_max_position_embeddings") or scaling.maybe("original_max_position_embeddings")


def weight_format(config: Config) -> str | None:
    """The quantisation method that the config declares."""
    scheme = config.sub("quantization_config")
    if scheme is None:
        return None
    return _word(scheme, "quant_method") or _word(scheme, "quant_algo")


def kv_cache_format(config: Config) -> str | None:
    """The cache format that the checkpoint asks for, in vLLM's words ("fp8", "nvfp4"); None when it asks for none.

    ModelOpt states `kv_cache_quant_algo` or a `kv_cache_scheme`; compressed-tensors a `kv_cache_scheme`.
    """
    scheme = config.sub("quantization_config", "quantization")
    if scheme is None:
        return None
    algorithm = scheme.peek("kv_cache_quant_algo")
    if isinstance(algorithm, str):
        return algorithm.lower()
    cache = scheme.sub("kv_cache_scheme")
    if cache is None:
        nested = scheme.sub("quantization")
        inner = nested.peek("kv_cache_quant_algo") if nested else None
        return inner.lower() if isinstance(inner, str) else None
    bits, kind = cache.peek("num_bits"), cache.peek("type")
    if not isinstance(bits, int) or not isinstance(kind, str):
        return None
    return {8: "fp8", 4: "nvfp4"}.get(bits) if kind == "float" else f"{kind}{bits}"


def _dtype(config: Config) -> str | None:
    value = config.peek("torch_dtype") or config.peek("dtype")
    return value.removeprefix("torch.") if isinstance(value, str) and value not in ("auto", "") else None


def _names(config: Config) -> tuple[str, ...]:
    value = config.peek("architectures")
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()


def _word(config: Config, key: str) -> str | None:
    value = config.peek(key)
    return value if isinstance(value, str) else None


def _count(config: Config, *keys: str) -> int | None:
    """As Config.maybe, but a list (one entry a layer) counts as absent."""
    return config.maybe(*(key for key in keys if not isinstance(config.peek(key), list)))
