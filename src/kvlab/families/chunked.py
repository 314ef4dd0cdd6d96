"""Most layers attend within fixed chunks of the context, the others to all of it: Llama 4."""

from __future__ import annotations

from kvlab.core.attention import full_row, heads, layer_count, layer_kinds
from kvlab.core.config import Config
from kvlab.core.errors import UnknownModel
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row

_EVERY = 4
"""Every fourth layer is full where the config lists none (Transformers' Llama4TextConfig)."""


def _claims(config: Config) -> bool:
    return config.has("attention_chunk_size") and not config.has("sliding_window", "hybrid_layer_pattern")


def _layout(config: Config) -> Layout:
    count, kept = layer_count(config), heads(config)
    chunk = config.need("attention_chunk_size")
    chunked = _chunked(config, count)
    local = tuple(layer for layer in range(count) if chunked[layer])
    full = [layer for layer in range(count) if not chunked[layer]]
    rows = []
    if local:
        rows.append(Row(kind="chunked", layers=local, heads=kept.kv, k_dim=kept.k_dim, v_dim=kept.v_dim, window=chunk))
    if full:
        rows.append(full_row(full, kept))
    return Layout(tuple(rows))


def _chunked(config: Config, count: int) -> list[bool]:
    kinds = layer_kinds(config, count)
    config.understood("no_rope_layer_interval")
    rotary = config.numbers("no_rope_layers")
    if kinds is not None:
        unknown = set(kinds) - {"chunked_attention", "full_attention"}
        if unknown:
            raise UnknownModel(f"{config.where}: layer_types names {min(unknown)!r} beside chunked attention")
        return [kind == "chunked_attention" for kind in kinds]
    if rotary:
        # 0 marks the layers without rotary positions, which see the whole context.
        if len(rotary) != count:
            raise config.bad("no_rope_layers", f"a list of {len(rotary)}", f"one entry for each of {count} layers")
        return [bool(flag) for flag in rotary]
    return [(layer + 1) % _EVERY != 0 for layer in range(count)]


chunked = Family(name="chunked", claims=_claims, layout=_layout)
