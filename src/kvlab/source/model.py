"""Config keys -> Model: the facts that the planner, the launcher and the report need besides the cache."""

from __future__ import annotations

from collections.abc import Iterator

from kvlab.core.attention import HEADS, HIDDEN
from kvlab.core.config import LAYER_KEYS, MOST_TOKENS, Config
from kvlab.core.errors import shortened
from kvlab.core.family import Understood
from kvlab.core.model import Doubt, Model
from kvlab.source import widths

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
    "max_target_positions",
)
_SCALED = ("linear", "dynamic")
"""Rope scalings that stretch max_position_embeddings; yarn, llama3 and longrope configs state the stretched length."""
_DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "half": "float16", "float32": "float32", "float": "float32"}
_DTYPE_KEYS = ("torch_dtype", "dtype")
_CACHE_WORDS = {"fp8": "fp8", "nvfp4": "nvfp4"}
"""Cache formats that checkpoints state (ModelOpt's kv_cache_quant_algo, in lower case), in vLLM's words."""
_CACHE_FLOATS = {8: "fp8", 4: "nvfp4"}
"""Bits of a float kv_cache_scheme."""


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
        ffn=widths.ffn(config),
        experts_per_token=widths.experts_per_token(config),
        expert_ffn=widths.expert_ffn(config),
        scan_chunk=widths.scan_chunk(config),
        vision=_vision(root),
    )


def _vision(root: Config) -> tuple[int | None, int | None] | None:
    """Layers and width of the vision tower under the names that most configs use."""
    tower = root.peek("vision_config")
    if not isinstance(tower, dict):
        return None
    layers, width = (
        value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1_000_000 else None
        for value in (tower.get("num_hidden_layers"), tower.get("hidden_size"))
    )
    return layers, width


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
        if scaling is not None and stated * factor > MOST_TOKENS:
            raise scaling.bad("factor", factor, f"at most {MOST_TOKENS // stated:,} for {stated:,} tokens")
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
    return next((word for _, value in _cache_claims(config) if (word := _cache_word(value)) is not None), None)


def doubts(*configs: Config) -> tuple[Doubt, ...]:
    """Dtypes and cache formats that the configs state in words that kvlab does not know."""
    found = {}
    for config in configs:
        for key in _DTYPE_KEYS:
            value = config.peek(key)
            if value not in (None, "", "auto") and _dtype_word(value) is None:
                text = f"{shortened(repr(value), 40)} is no dtype that kvlab knows ({', '.join(sorted(_DTYPES))})"
                found[config.path + key] = f"{text}; the cache is planned with 16 bits a value"
        for key, value in _cache_claims(config):
            if _cache_word(value) is None:
                text = f"{shortened(repr(value), 80)} is no cache format that kvlab knows (FP8, NVFP4)"
                found[key] = f"{text}; planned as if the checkpoint asked for none, give --kv-dtype to be sure"
        key = "quantization_config"
        scheme = config.peek(key)
        if scheme is not None and not isinstance(scheme, dict):
            found[config.path + key] = f"{shortened(repr(scheme), 40)} is no object; it may name a cache format"
    return tuple(Doubt(key, text) for key, text in found.items())


def _cache_claims(config: Config) -> Iterator[tuple[str, object]]:
    """Keys that state a cache format, and their values, the one that counts first."""
    scheme = config.sub("quantization_config", "quantization")
    if scheme is None:
        return
    inner = scheme.sub("quantization")
    for nested in (scheme,) if inner is None else (scheme, inner):
        for key in ("kv_cache_quant_algo", "kv_cache_scheme"):
            if nested.has(key):
                yield nested.path + key, nested.peek(key)


def _cache_word(value: object) -> str | None:
    """The format that a claim states; None for one that is not known."""
    if isinstance(value, str):
        return _CACHE_WORDS.get(value.lower())
    if not isinstance(value, dict):
        return None
    bits, kind = value.get("num_bits"), value.get("type")
    if isinstance(bits, bool) or not isinstance(bits, int) or kind != "float":
        return None
    return _CACHE_FLOATS.get(bits)


def _dtype(config: Config) -> str | None:
    """The compute dtype; None when it is not stated, or not known."""
    return next((word for key in _DTYPE_KEYS if (word := _dtype_word(config.peek(key))) is not None), None)


def _dtype_word(value: object) -> str | None:
    return _DTYPES.get(value.removeprefix("torch.")) if isinstance(value, str) else None


def _names(config: Config) -> tuple[str, ...]:
    value = config.peek("architectures")
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()


def _word(config: Config, key: str) -> str | None:
    value = config.peek(key)
    return value if isinstance(value, str) else None


def _count(config: Config, *keys: str) -> int | None:
    """As Config.maybe, but a list (one entry a layer) counts as absent."""
    return config.maybe(*(key for key in keys if not isinstance(config.peek(key), list)))
