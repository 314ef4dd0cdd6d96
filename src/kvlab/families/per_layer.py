"""Each layer states its own heads, and some have none: Llama-Nemotron (pruned by search), OpenELM."""

from __future__ import annotations

from kvlab.core.attention import HEADS, KV_HEADS, Heads, full_row, head_dim, layer_count
from kvlab.core.config import Config
from kvlab.core.errors import UnknownModel
from kvlab.core.family import Family
from kvlab.core.layout import Layout

_STILL_FULL = ("unshifted_sink", "num_sink_tokens", "use_prefill_window_in_sink_attention", "sparsify")


def _claims(config: Config) -> bool:
    return config.has("block_configs") or any(isinstance(config.peek(key), list) for key in KV_HEADS)


def _layout(config: Config) -> Layout:
    key = "block_configs" if config.has("block_configs") else _listing(config)
    kv_heads = _from_blocks(config) if key == "block_configs" else _listed(config, key)
    if not any(kv_heads):
        raise config.bad(key, "without KV heads in any layer", "a list with at least one layer of attention")
    size = head_dim(config)
    groups: dict[int, list[int]] = {}
    for layer, count in enumerate(kv_heads):
        if count:
            groups.setdefault(count, []).append(layer)
    return Layout(tuple(full_row(layers, Heads(count, size, size)) for count, layers in groups.items()))


def _listing(config: Config) -> str:
    return next(key for key in KV_HEADS if isinstance(config.peek(key), list))


def _listed(config: Config, key: str) -> list[int]:
    values = config.numbers(key) or []
    config.understood("num_query_heads", "num_gqa_groups")
    if len(values) != layer_count(config):
        raise config.bad(key, f"a list of {len(values)}", f"one entry for each of {layer_count(config)}")
    queries = config.peek("num_query_heads")
    for layer, kv in enumerate(values):
        total = queries[layer] if isinstance(queries, list) and layer < len(queries) else None
        if kv and isinstance(total, int) and total % kv:
            raise config.bad(f"{key}[{layer}]", kv, f"a divisor of the layer's {total:,} attention heads")
    return values


def _from_blocks(config: Config) -> list[int]:
    """KV heads of each block: attention heads / heads in a group; 0 where attention was pruned away."""
    blocks = config.items("block_configs") or []
    if len(blocks) != layer_count(config):
        raise config.bad("block_configs", f"a list of {len(blocks)}", f"one entry for each of {layer_count(config)}")
    config.understood("num_key_value_heads")
    heads, found = config.need(*HEADS), []
    for layer, block in enumerate(blocks):
        attention = block.get("attention") if isinstance(block, dict) else None
        if not isinstance(attention, dict):
            raise config.bad("block_configs", block, "a list of objects with an attention object")
        found.append(_kv_heads(Config(attention, config.where, f"block_configs[{layer}].attention."), heads))
    return found


def _kv_heads(attention: Config, heads: int) -> int:
    if attention.flag("no_op") or attention.flag("replace_with_linear"):
        return 0
    if attention.has("window_length", *_STILL_FULL[1:2]):
        raise UnknownModel(
            f"{attention.where}: {attention.path}window_length or num_sink_tokens is set; windows of single blocks are"
            " not known"
        )
    group = attention.need("n_heads_in_group")
    if heads % group:
        raise attention.bad("n_heads_in_group", group, f"a divisor of {heads} attention heads")
    return heads // group


per_layer = Family(name="per_layer", claims=_claims, layout=_layout)
