"""Lightning attention in most layers, softmax or latent attention in the others: MiniMax-Text-01 and M1, Ling 2.5.

https://arxiv.org/abs/2501.08313: a linear layer keeps one matrix of head size x head size per attention head.
"""

from __future__ import annotations

from kvlab.core.attention import HEADS, attention_rows, head_dim, layer_count
from kvlab.core.config import Config
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row, State

# Sizes of latent attention that are not cached, and norms of the linear layers.
_UNCACHED = ("num_key_value_heads", "v_head_dim", "qk_head_dim", "q_lora_rank", "qk_nope_head_dim", "linear_silu")


def _claims(config: Config) -> bool:
    listed = config.peek("attn_type_list")
    return (isinstance(listed, list) and 0 in listed) or (config.has("layer_group_size") and config.has("kv_lora_rank"))


def _layout(config: Config) -> Layout:
    count = layer_count(config)
    softmax = _grouped(config, count) if config.has("layer_group_size") else _listed(config, count)
    size = head_dim(config)
    state = State("linear", config.need(*HEADS) * size * size)
    linear = tuple(layer for layer in range(count) if layer not in softmax)
    rows = [Row(kind="state", layers=linear, state=(state,))] if linear else []
    return Layout((*rows, *_attention(config, softmax)))


def _listed(config: Config, count: int) -> list[int]:
    """Softmax layers by a list: 0 is linear, 1 is softmax."""
    kinds = config.numbers("attn_type_list") or []
    if len(kinds) != count or set(kinds) - {0, 1}:
        raise config.bad("attn_type_list", kinds, f"0 (linear) or 1 (softmax) for each of {count} layers")
    return [layer for layer in range(count) if kinds[layer]]


def _grouped(config: Config, count: int) -> list[int]:
    """The last layer of every group. What layers beyond the last whole group are, implementations disagree on."""
    size = config.need("layer_group_size")
    if count % size:
        raise config.bad("layer_group_size", size, f"a divisor of {count} layers")
    return [layer for layer in range(count) if (layer + 1) % size == 0]


def _attention(config: Config, layers: list[int]) -> list[Row]:
    rank = config.maybe("kv_lora_rank")
    if rank is None:
        return attention_rows(config, layers)
    config.understood(*_UNCACHED)
    width = rank + config.need("qk_rope_head_dim", least=0)
    return [Row(kind="latent", layers=tuple(layers), heads=1, k_dim=width)]


lightning = Family(name="lightning", claims=_claims, layout=_layout)
