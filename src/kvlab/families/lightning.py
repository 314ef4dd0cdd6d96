"""Lightning attention in most layers, softmax attention in the others: MiniMax-Text-01, MiniMax-M1.

https://arxiv.org/abs/2501.08313: a linear layer keeps one matrix of head size x head size per attention head.
"""

from __future__ import annotations

from kvlab.core.attention import HEADS, attention_rows, head_dim, layer_count
from kvlab.core.config import Config
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row, State


def _claims(config: Config) -> bool:
    listed = config.peek("attn_type_list")
    return isinstance(listed, list) and 0 in listed


def _layout(config: Config) -> Layout:
    count = layer_count(config)
    kinds = config.numbers("attn_type_list") or []
    if len(kinds) != count or set(kinds) - {0, 1}:
        raise config.bad("attn_type_list", kinds, f"0 (linear) or 1 (softmax) for each of {count} layers")
    size = head_dim(config)
    state = State("ssm", config.need(*HEADS) * size * size)
    linear = tuple(layer for layer in range(count) if not kinds[layer])
    softmax = [layer for layer in range(count) if kinds[layer]]
    return Layout((Row(kind="state", layers=linear, state=(state,)), *attention_rows(config, softmax)))


lightning = Family(name="lightning", claims=_claims, layout=_layout)
