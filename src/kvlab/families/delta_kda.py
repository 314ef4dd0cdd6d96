"""Kimi Delta Attention in most layers, latent or plain attention in the others: Kimi Linear, Kimi K3, GLM-5.3-Flash.

https://arxiv.org/abs/2510.26692: a layer keeps a matrix of head size x head size per head, and the last
`short_conv_kernel_size - 1` inputs of three convolutions (queries, keys, values).
"""

from __future__ import annotations

from kvlab.core.attention import drafts, full_row, heads, indexer_leaders, layer_count, layer_kinds
from kvlab.core.config import Config
from kvlab.core.errors import UnknownModel
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
_UNINDEXED = (
    "index_n_heads",
    "index_topk",
    "index_kpool_always_select_tail",
    "index_share_for_mtp_iteration",
    "indexer_rope_interleave",
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
    found = _attention(config, count, attention)
    return Layout((*rows, *found), draft=drafts(config, *found))


def _split(linear: Config, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Recurrent and attention layers from 0; the two lists, which may count from 1, must name every layer once."""
    recurrent, attention = linear.numbers("kda_layers") or [], linear.numbers("full_attn_layers") or []
    first = min([*recurrent, *attention], default=0)
    if sorted([*recurrent, *attention]) != list(range(first, first + count)) or first > 1:
        raise linear.bad("kda_layers", recurrent, f"with full_attn_layers, each of the {count} layers once")
    return tuple(layer - first for layer in recurrent), tuple(layer - first for layer in attention)


def _attention(config: Config, count: int, layers: tuple[int, ...]) -> list[Row]:
    if not layers:
        return []
    rank = config.maybe("kv_lora_rank")
    if rank is None:
        return [full_row(layers, heads(config))]
    config.understood(*_UNCACHED)
    latent = Row(kind="latent", layers=layers, heads=1, k_dim=rank + config.need("qk_rope_head_dim", least=0))
    return [latent, *_indexer(config, count, layers)]


def _indexer(config: Config, count: int, layers: tuple[int, ...]) -> list[Row]:
    """Keys of the indexer; GLM-5.3-Flash pools `index_kpool` of them, and keeps those of the running pool apart."""
    width = config.maybe("index_head_dim")
    if width is None:
        return []
    kinds = layer_kinds(config, count) or []
    if set(kinds) - {"linear_attention", "deepseek_sparse_attention"}:
        raise config.bad("layer_types", kinds, "linear_attention or deepseek_sparse_attention for each layer")
    config.understood(*_UNINDEXED)
    own = tuple(layer for layer in indexer_leaders(config, count) if layer in layers)
    pool = config.maybe("index_kpool") or 1
    if pool > 1 and not config.flag("index_kpool_compress"):
        raise UnknownModel(f"{config.where}: {config.path}index_kpool is {pool} and index_kpool_compress is not true")
    # A token of the running pool waits as a key and a gate.
    tail = State("ring", 2 * pool * width, "bfloat16", pool) if pool > 1 else None
    return [Row(kind="indexer", layers=own, heads=1, k_dim=width, pool=pool, tail=tail)]


delta_kda = Family(name="delta_kda", claims=_claims, layout=_layout)
