"""GGUF metadata, read as llama.cpp reads it: what its loader fixes per architecture is not in the file.

Sources: the `load_arch_hparams` functions in src/models of llama.cpp (b11434); recurrent sizes from llama-hparams.cpp
(`n_embd_r`, `n_embd_s`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kvlab.core.config import Config
from kvlab.core.errors import UnknownModel
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row, RowKind, State


class _Rule(msgspec.Struct, frozen=True):
    """How an architecture alternates: one layer in `period` is full, the last of them or (`full_first`) the first."""

    period: int
    full_first: bool = False
    window: int | None = None
    """Window where the file states none."""
    kind: RowKind = "window"


_RULES = {
    "gemma2": _Rule(2, window=4096),
    "gemma3": _Rule(6),
    "gemma3n": _Rule(5),
    "gemma4": _Rule(6),
    "cohere2": _Rule(4),
    "cohere2moe": _Rule(4, full_first=True),
    "olmo2": _Rule(4),
    "exaone4": _Rule(4),
    "gpt-oss": _Rule(2),
    "afmoe": _Rule(4),
    "smallthinker": _Rule(4, full_first=True),
    "laguna": _Rule(4, full_first=True),
    "llama4": _Rule(4, window=8192, kind="chunked"),
}
_IGNORES_WINDOW = frozenset(
    {"phi3", "phimoe", "llama", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "starcoder2", "gemma"}
)
"""Architectures for which llama.cpp keeps every token although the file may state a window."""
_NO_CACHE = frozenset(
    {"bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "modern-bert", "jina-bert-v2", "jina-bert-v3", "eurobert"}
    | {"t5encoder", "gemma-embedding", "clip", "llama-embed", "wavtokenizer-dec", "dream", "llada", "llada-moe"}
)
_INTERVAL = frozenset({"qwen3next", "qwen35", "qwen35moe"})
"""Recurrent except every fourth layer, or every `full_attention_interval`-th."""
_ALL_RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
_PARALLEL = frozenset({"falcon-h1"})
"""Attention and a state in every layer."""


class _Kept(msgspec.Struct, frozen=True):
    """What one layer keeps of attention."""

    kind: RowKind
    heads: int
    k_dim: int
    v_dim: int
    window: int | None = None


def _claims(config: Config) -> bool:
    return config.has("general.architecture")


def _layout(config: Config) -> Layout:
    arch = config.text("general.architecture") or ""
    if arch in _NO_CACHE or config.flag("attention.causal") is False:
        raise UnknownModel(f"{config.where}: architecture {arch!r} is an encoder and keeps no KV cache")
    if arch == "t5":
        raise UnknownModel(f"{config.where}: architecture 't5' is an encoder-decoder; kvlab plans decoder-only models")
    # Draft layers are counted in block_count and are not part of the trunk's cache.
    count = config.need("block_count") - (config.maybe("nextn_predict_layers", least=0) or 0)
    if count < 1:
        raise config.bad("nextn_predict_layers", config.peek("nextn_predict_layers"), "less than block_count")
    recurrent = _recurrent(config, arch, count)
    groups: dict[_Kept, list[int]] = {}
    attention = [layer for layer in range(count) if layer not in recurrent or arch in _PARALLEL]
    for layer, kept in _attention(config, arch, count, attention):
        groups.setdefault(kept, []).append(layer)
    rows = [
        Row(
            kind=kept.kind,
            layers=tuple(layers),
            heads=kept.heads,
            k_dim=kept.k_dim,
            v_dim=kept.v_dim,
            window=kept.window,
        )
        for kept, layers in groups.items()
    ]
    if recurrent:
        rows.append(Row(kind="state", layers=tuple(sorted(recurrent)), state=_state(config, arch)))
    if not rows:
        raise config.bad("attention.head_count_kv", "0 in every layer", "at least 1 in a layer that attends")
    return Layout(tuple(rows))


def _attention(config: Config, arch: str, count: int, layers: list[int]) -> Iterable[tuple[int, _Kept]]:
    """The given layers and what each keeps; layers without KV heads, or that share a cache, are left out."""
    if not layers:
        return
    shared = config.maybe("attention.shared_kv_layers", least=0)
    if shared is None and arch == "gemma3n":
        shared = max(0, count - 20)  # llama.cpp: the first 20 layers own a cache
    if config.has("attention.kv_lora_rank") and config.has("attention.key_length_mla"):
        yield from ((layer, _latent(config)) for layer in layers)
        return
    heads, kv_heads = _per_layer(config, "attention.head_count", count), _kv_heads(config, count)
    window, slides, kind = _windows(config, arch, count)
    for layer in layers[: len(layers) - (shared or 0)]:
        if not kv_heads[layer] or not heads[layer]:
            continue
        if heads[layer] % kv_heads[layer]:
            of = f"a divisor of the {heads[layer]:,} attention heads of layer {layer}"
            raise config.bad("attention.head_count_kv", kv_heads[layer], of)
        k_dim, v_dim = _dims(config, heads[layer], sliding=slides[layer])
        if slides[layer]:
            yield layer, _Kept(kind, kv_heads[layer], k_dim, v_dim, window)
        else:
            yield layer, _Kept("full", kv_heads[layer], k_dim, v_dim)


def _latent(config: Config) -> _Kept:
    """One key of kv_lora_rank + rotary values, which the file states as key_length; values are part of it."""
    config.understood("attention.head_count", "attention.head_count_kv", "attention.value_length")
    config.understood("attention.key_length_mla", "attention.value_length_mla", "attention.key_length")
    rank, rotary = config.need("attention.kv_lora_rank"), config.need("rope.dimension_count", least=0)
    return _Kept("latent", 1, rank + rotary, 0)


def _dims(config: Config, heads: int, *, sliding: bool) -> tuple[int, int]:
    """Values of a key and of a value; embedding length / heads where the file does not state them."""
    key = config.maybe("attention.key_length")
    value = config.maybe("attention.value_length")
    even = config.need("embedding_length") // heads
    key, value = key or even, value or even
    narrow_key, narrow_value = config.maybe("attention.key_length_swa"), config.maybe("attention.value_length_swa")
    if sliding:
        return narrow_key or key, narrow_value or value
    return key, value


def _windows(config: Config, arch: str, count: int) -> tuple[int | None, list[bool], RowKind]:
    """The window, which layers slide, and what sliding means."""
    rule = _RULES.get(arch)
    window = config.maybe("attention.sliding_window", least=0)
    if rule is not None and rule.window is not None and window is None:
        window = rule.window
    if arch == "exaone4" and window is None and count == 64:
        window = 4096
    if not window or arch in _IGNORES_WINDOW:
        config.understood("attention.sliding_window_pattern")
        return None, [False] * count, "full"
    if rule is not None and rule.kind == "chunked":
        window = rule.window
    kind = rule.kind if rule else "window"
    if isinstance(config.peek("attention.sliding_window_pattern"), list):
        listed = config.items("attention.sliding_window_pattern") or []
        if len(listed) < count:
            raise config.bad("attention.sliding_window_pattern", f"a list of {len(listed)}", f"one entry for {count}")
        return window, [bool(slides) for slides in listed[:count]], kind
    period = config.maybe("attention.sliding_window_pattern") or (rule.period if rule else None)
    if period is None:
        raise UnknownModel(
            f"{config.where}: architecture {arch!r} has a sliding window and kvlab does not know in which layers;"
            " keys not understood: attention.sliding_window"
        )
    full = 0 if rule and rule.full_first else period - 1
    return window, [layer % period != full for layer in range(count)], kind


def _recurrent(config: Config, arch: str, count: int) -> set[int]:
    """Layers that keep a state."""
    if not any(config.has(key) for key in ("ssm.conv_kernel", "shortconv.l_cache", "wkv.head_size")):
        return set()
    if arch in _ALL_RECURRENT or arch in _PARALLEL:
        config.understood("attention.head_count", "attention.head_count_kv")
        return set(range(count))
    listed = config.items("attention.recurrent_layers")
    if listed is not None:
        return {layer for layer, flag in enumerate(listed[:count]) if flag}
    if arch in _INTERVAL:
        every = config.maybe("full_attention_interval") or 4
        return {layer for layer in range(count) if (layer + 1) % every}
    kv_heads = _kv_heads(config, count)
    if all(kv_heads):
        raise UnknownModel(
            f"{config.where}: architecture {arch!r} keeps a state and kvlab does not know in which layers;"
            " keys not understood: ssm, attention.head_count_kv"
        )
    if arch.startswith("nemotron_h"):
        # A layer without KV heads is a feed-forward layer where it has a feed-forward width.
        width = _per_layer(config, "feed_forward_length", count)
        return {layer for layer in range(count) if not kv_heads[layer] and not width[layer]}
    return {layer for layer in range(count) if not kv_heads[layer]}


def _state(config: Config, arch: str) -> tuple[State, ...]:
    """Values of the convolution window and of the recurrent state of one layer."""
    if config.has("wkv.head_size"):
        shifts = config.maybe("token_shift_count") or (1 if "qwen2" in arch or arch == "arwkv7" else 2)
        hidden = config.need("embedding_length")
        return State("conv", shifts * hidden), State("ssm", hidden * config.need("wkv.head_size"))
    if config.has("shortconv.l_cache"):
        return (State("conv", config.need("embedding_length") * (config.need("shortconv.l_cache") - 1)),)
    kernel = config.need("ssm.conv_kernel")
    if config.has("kda.head_dim"):
        size, heads = config.need("kda.head_dim"), max(config.numbers_or_one("attention.head_count"))
        return State("conv", 3 * (kernel - 1) * heads * size), State("ssm", size * size * heads)
    inner, size = config.need("ssm.inner_size"), config.need("ssm.state_size")
    groups = config.maybe("ssm.group_count", least=0) or 0
    config.understood("ssm.time_step_rank", "ssm.dt_b_c_rms")
    return State("conv", (kernel - 1) * (inner + 2 * groups * size)), State("ssm", size * inner)


def _kv_heads(config: Config, count: int) -> list[int]:
    """KV heads of each layer; attention heads where the file does not state them."""
    key = "attention.head_count_kv" if config.has("attention.head_count_kv") else "attention.head_count"
    return _per_layer(config, key, count)


def _per_layer(config: Config, key: str, count: int) -> list[int]:
    """A number for each layer, from one number or a list of them."""
    values = config.numbers_or_one(key)
    if len(values) == 1:
        return values * count
    if len(values) < count:
        raise config.bad(key, f"a list of {len(values)}", f"one number, or one for each of {count} layers")
    return values[:count]


gguf = Family(name="gguf", claims=_claims, layout=_layout)
