"""Kimi Delta Attention in most layers, latent or plain attention in the others: Kimi Linear, Kimi K3.

https://arxiv.org/abs/2510.26692: a layer keeps a matrix of head size x head size per head, and the last
`short_conv_kernel_size - 1` inputs of three convolutions (queries, keys, values).
"""

from __future__ import annotations

from kvlab.core.attention import full_row, heads, layer_count
from kvlab.core.config import Config
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row, State

_UNCACHED = (
    "num_key_value_heads",
    "num_attention_heads",
    "head_dim",
    "v_head_dim",
    "qk_nope_head_dim",
    "mla_use_nope",
    "mla_use_output_gate",
)
_UNSTORED = ("gate_lower_bound", "use_full_rank_gate")


def _claims(config: Config) -> bool:
    return config.has("linear_attn_config")


def _layout(config: Config) -> Layout:
    count = layer_count(config)
    linear = config.need_sub("linear_attn_config")
    recurrent, attention = _split(linear, count)
    size, kernel = linear.need("head_dim"), linear.need("short_conv_kernel_size")
    width = linear.need("num_heads") * size
    linear.understood(*_UNSTORED)
    state = (State("conv", 3 * width * (kernel - 1), taps=kernel - 1), State("ssm", width * size))
    rows = [Row(kind="state", layers=recurrent, state=state)] if recurrent else []
    return Layout((*rows, *_attention(config, attention)))


def _split(linear: Config, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Recurrent and attention layers from 0; the two lists, which may count from 1, must name every layer once."""
    recurrent, attention = linear.numbers("kda_layers") or [], linear.numbers("full_attn_layers") or []
    first = min([*recurrent, *attention], default=0)
    if sorted([*recurrent, *attention]) != list(range(first, first + count)) or first > 1:
        raise linear.bad("kda_layers", recurrent, f"with full_attn_layers, each of the {count} layers once")
    return tuple(layer - first for layer in recurrent), tuple(layer - first for layer in attention)


def _attention(config: Config, layers: tuple[int, ...]) -> list[Row]:
    if not layers:
        return []
    rank = config.maybe("kv_lora_rank")
    if rank is None:
        return [full_row(layers, heads(config))]
    config.understood(*_UNCACHED)
    return [Row(kind="latent", layers=layers, heads=1, k_dim=rank + config.need("qk_rope_head_dim", least=0))]


delta_kda = Family(name="delta_kda", claims=_claims, layout=_layout)
