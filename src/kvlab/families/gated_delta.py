"""Gated DeltaNet in most layers, attention in the others: Qwen3-Next, Qwen3.5, Olmo Hybrid.

https://arxiv.org/abs/2412.06464: a layer keeps one matrix of key size x value size per value head, and the last
`linear_conv_kernel_dim - 1` inputs of the convolution over queries, keys and values.
"""

from __future__ import annotations

from kvlab.core.attention import attention_rows, drafts, layer_count, layer_kinds, slides
from kvlab.core.config import Config
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row, State


def _claims(config: Config) -> bool:
    return config.has("linear_num_value_heads")


def _layout(config: Config) -> Layout:
    count = layer_count(config)
    recurrent = _recurrent(config, count)
    attention = [layer for layer in range(count) if layer not in recurrent]
    rows = attention_rows(config, attention)
    return Layout(
        (Row(kind="state", layers=tuple(recurrent), state=_state(config)), *rows), draft=drafts(config, *rows)
    )


def _recurrent(config: Config, count: int) -> list[int]:
    kinds = layer_kinds(config, count)
    if kinds is None:
        every = config.need("full_attention_interval")
        return [layer for layer in range(count) if (layer + 1) % every]
    config.understood("full_attention_interval")
    for kind in set(kinds) - {"linear_attention"}:
        slides(config, kind)
    return [layer for layer, kind in enumerate(kinds) if kind == "linear_attention"]


def _state(config: Config) -> tuple[State, State]:
    keys = config.need("linear_num_key_heads") * config.need("linear_key_head_dim")
    values = config.need("linear_num_value_heads") * config.need("linear_value_head_dim")
    kernel = config.need("linear_conv_kernel_dim")
    config.understood("linear_allow_neg_eigval", "linear_use_gate")
    matrix = values * config.need("linear_key_head_dim")
    return (
        State("conv", (2 * keys + values) * (kernel - 1), taps=kernel - 1),
        State("ssm", matrix, config.text("mamba_ssm_dtype", "mamba_ssm_cache_dtype")),
    )


gated_delta = Family(name="gated_delta", claims=_claims, layout=_layout)
