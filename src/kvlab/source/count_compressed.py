"""Matrices of DeepSeek V4's attention over compressed tokens, and its hyper-connections."""

from __future__ import annotations

from kvlab.core.attention import HEADS
from kvlab.source.count_attention import Shape
from kvlab.source.count_parts import Part, linear, norm


def compressed(shape: Shape, layer: int, at: str) -> list[Part]:
    """One shared key-value head, grouped low-rank output, and a compressor where the layer's ratio asks for one."""
    config, hidden = shape.config, shape.hidden
    heads, size, q_rank = config.need(*HEADS), config.need("head_dim"), config.need("q_lora_rank")
    groups, rank = config.need("o_groups"), config.need("o_lora_rank")
    parts = [
        *linear(f"{at}.wq_a", q_rank, hidden),
        *norm(f"{at}.q_norm", q_rank),
        *linear(f"{at}.wq_b", heads * size, q_rank),
        *linear(f"{at}.wkv", size, hidden),
        *norm(f"{at}.kv_norm", size),
        *linear(f"{at}.wo_a", groups * rank, heads * size // groups),
        *linear(f"{at}.wo_b", hidden, groups * rank),
        *norm(f"{at}.attn_sink", heads),
    ]
    ratios = config.numbers("compress_ratios") or []
    ratio = ratios[layer] if layer < len(ratios) else 0
    if ratio:
        parts += _compressor(f"{at}.compressor", ratio, size, hidden)
    if ratio == 4:
        index_heads, index_size = config.need("index_n_heads"), config.need("index_head_dim")
        parts += linear(f"{at}.indexer.wq_b", index_heads * index_size, q_rank)
        parts.append(Part(f"{at}.indexer.weights_proj", index_heads, hidden))
        parts += _compressor(f"{at}.indexer.compressor", ratio, index_size, hidden)
    return parts


def _compressor(at: str, ratio: int, size: int, hidden: int) -> list[Part]:
    """Windows of ratio 4 overlap, which doubles the projections."""
    width = size * (2 if ratio == 4 else 1)
    return [
        Part(f"{at}.wkv", width, hidden),
        Part(f"{at}.wgate", width, hidden),
        Part(f"{at}.ape", ratio, width),
        *norm(f"{at}.norm", size),
    ]


def hyper(shape: Shape, at: str) -> list[Part]:
    """Manifold-constrained hyper-connections before attention and MLP: n streams mixed by (2 + n) n weights."""
    streams = shape.config.maybe("hc_mult")
    if streams is None:
        return []
    mixes = (2 + streams) * streams
    return [Part(f"{at}.hc_{side}_fn", mixes, streams * shape.hidden + 1) for side in ("attn", "ffn")]
