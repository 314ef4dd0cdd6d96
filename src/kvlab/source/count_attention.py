"""Matrices of attention layers: grouped heads, and latent attention with its indexer."""

from __future__ import annotations

import msgspec

from kvlab.core.attention import HEADS, HIDDEN, head_dim, kv_heads
from kvlab.core.config import LAYER_KEYS, Config
from kvlab.source.count_parts import Part, linear, norm
from kvlab.source.count_traits import Traits

_BIAS = ("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias", "use_bias", "bias")


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What all the layers of a language model share."""

    config: Config
    traits: Traits
    kind: str
    """model_type of the language model."""
    hidden: int
    layers: int


def shape(config: Config, traits: Traits, kind: str) -> Shape:
    """The sizes that every layer needs. Raises MissingFact without them."""
    listed = config.items("layers_block_type")
    layers = config.maybe(*LAYER_KEYS) or (len(listed) if listed else config.need(*LAYER_KEYS))
    return Shape(config=config, traits=traits, kind=kind, hidden=config.need(*HIDDEN), layers=layers)


class Grouped(msgspec.Struct, frozen=True, kw_only=True):
    """Heads of one layer with keys and values."""

    heads: int
    kv: int
    k_dim: int
    v_dim: int
    values: bool = True
    """False: values are the keys, without a projection of their own."""


def heads_of(shape: Shape, layer: int) -> Grouped | None:
    """The heads of a layer, where layers may differ; None for a block without attention."""
    config = shape.config
    blocks = config.items("block_configs")
    if blocks is not None:
        return _block_heads(config, blocks[layer])
    heads = config.need(*HEADS)
    k_dim = head_dim(config)
    v_dim = config.maybe("v_head_dim", least=0) or k_dim
    if config.has("swa_num_key_value_heads", "swa_head_dim") and _slides(config, layer):
        swa = config.maybe("swa_head_dim") or k_dim
        return Grouped(
            heads=config.maybe("swa_num_attention_heads") or heads,
            kv=config.maybe("swa_num_key_value_heads") or kv_heads(config),
            k_dim=swa,
            v_dim=config.maybe("swa_v_head_dim") or swa,
        )
    if config.has("global_head_dim") and not _slides(config, layer):
        size = config.need("global_head_dim")
        same = bool(config.flag("attention_k_eq_v"))
        kv = config.maybe("num_global_key_value_heads") if same else None
        return Grouped(heads=heads, kv=kv or kv_heads(config), k_dim=size, v_dim=size, values=not same)
    return Grouped(heads=heads, kv=kv_heads(config), k_dim=k_dim, v_dim=v_dim)


def grouped(shape: Shape, layer: int, at: str) -> list[Part]:
    """Query, key, value and output projections of one layer with grouped heads, their biases and norms."""
    held = heads_of(shape, layer)
    if held is None:
        return []
    config, traits, hidden = shape.config, shape.traits, shape.hidden
    stated = config.flag(*_BIAS)
    bias = traits.qkv_bias if stated is None else stated
    if config.flag("no_bias") is False:
        bias = True
    out_stated = config.flag("attention_out_bias")
    out_bias = out_stated if out_stated is not None else traits.o_bias if traits.o_bias is not None else bias
    gate = config.flag("attn_output_gate")
    doubled = 2 if (traits.attention_gate if gate is None else gate) else 1
    queries, keys = held.heads * held.k_dim, held.kv * held.k_dim
    parts = [
        *linear(f"{at}.q_proj", queries * doubled, hidden, bias),
        *linear(f"{at}.k_proj", keys, hidden, bias),
        *(linear(f"{at}.v_proj", held.kv * held.v_dim, hidden, bias) if held.values else []),
        *linear(f"{at}.o_proj", hidden, held.heads * held.v_dim, out_bias),
    ]
    if traits.qk_norm == "width" and config.text("qk_norm_type") != "per_head":
        parts += norm(f"{at}.q_norm", queries) + norm(f"{at}.k_norm", keys)
    elif traits.qk_norm and config.flag("use_qk_norm") is not False:
        parts += norm(f"{at}.q_norm", held.k_dim) + norm(f"{at}.k_norm", held.k_dim)
    if traits.sinks:
        parts += norm(f"{at}.sinks", held.heads)
    return parts


def is_latent(config: Config) -> bool:
    """Whether the config states latent attention (MLA)."""
    return config.has("kv_lora_rank") and config.flag("use_mla") is not False


def latent(shape: Shape, layer: int, at: str) -> list[Part]:
    """Projections of multi-head latent attention. https://arxiv.org/abs/2405.04434, section 2.1"""
    config, hidden = shape.config, shape.hidden
    heads, rank = config.need(*HEADS), config.need("kv_lora_rank")
    nope, rope = config.need("qk_nope_head_dim", least=0), config.need("qk_rope_head_dim", least=0)
    values = config.maybe("v_head_dim") or hidden // heads
    queries, q_rank = heads * (nope + rope), config.maybe("q_lora_rank")
    bias = bool(config.flag("attention_bias"))
    if q_rank:
        parts = [
            *linear(f"{at}.q_a_proj", q_rank, hidden, bias),
            *norm(f"{at}.q_a_layernorm", q_rank),
            *linear(f"{at}.q_b_proj", queries, q_rank),
        ]
    else:
        parts = linear(f"{at}.q_proj", queries, hidden)
    parts += linear(f"{at}.kv_a_proj_with_mqa", rank + rope, hidden, bias)
    parts += norm(f"{at}.kv_a_layernorm", rank)
    parts += linear(f"{at}.kv_b_proj", heads * (nope + values), rank)
    parts += linear(f"{at}.o_proj", hidden, heads * values, bias)
    if config.flag("mla_use_output_gate"):
        parts += linear(f"{at}.g_proj", heads * values, hidden)
    kinds = config.items("indexer_types")
    if config.has("index_n_heads") and (kinds is None or layer >= len(kinds) or kinds[layer] == "full"):
        parts += _indexer(config, hidden, q_rank or hidden, at)
    return parts


def _indexer(config: Config, hidden: int, q_rank: int, at: str) -> list[Part]:
    """The lightning indexer of DeepSeek V3.2. https://arxiv.org/abs/2512.02556"""
    heads, size = config.need("index_n_heads"), config.need("index_head_dim")
    return [
        *linear(f"{at}.indexer.wq_b", heads * size, q_rank),
        *linear(f"{at}.indexer.wk", size, hidden),
        *norm(f"{at}.indexer.k_norm", size, bias=True),
        Part(f"{at}.indexer.weights_proj", heads, hidden),
    ]


def _slides(config: Config, layer: int) -> bool:
    kinds = config.items("layer_types")
    if kinds is not None:
        return layer < len(kinds) and "sliding" in str(kinds[layer])
    pattern = config.numbers("hybrid_layer_pattern")
    if pattern is not None:
        return layer >= len(pattern) or pattern[layer] == 1
    return False


def _block_heads(config: Config, block: object) -> Grouped | None:
    attention = block.get("attention") if isinstance(block, dict) else None
    if not isinstance(attention, dict):
        raise config.bad("block_configs", block, "a list of objects with an attention object")
    inner = Config(attention, config.where, "block_configs.attention.")
    if inner.flag("no_op"):
        return None
    if inner.flag("replace_with_linear"):
        raise config.bad("block_configs", "replace_with_linear", "false: a linear block's shape is not known")
    heads, size = config.need(*HEADS), head_dim(config)
    return Grouped(heads=heads, kv=max(heads // inner.need("n_heads_in_group"), 1), k_dim=size, v_dim=size)
