"""What one token costs in reading and computing, counted from a config: the active part of the weights."""

from __future__ import annotations

import re
from collections import Counter

from kvlab.core.attention import HEADS
from kvlab.core.config import Config
from kvlab.core.errors import KvlabError
from kvlab.core.layout import Layout, Row
from kvlab.core.roofline import Attends, Experts, Work
from kvlab.source import count_attention, count_bytes, count_mixers, count_model, widths
from kvlab.source.count import MOST_BYTES, language_of, tied
from kvlab.source.count_attention import Shape, shape
from kvlab.source.count_bytes import Rules
from kvlab.source.count_parts import Part, total
from kvlab.source.count_traits import TRAITS

_LOOKED_UP = ("model.embed_tokens_per_layer", "model.embed_positions")
"""Tables of which a step reads one row a token."""
_LAYER = re.compile(r"layers\.(\d+)\.")


def work(config: Config, layout: Layout, weights_bytes: int | None) -> Work | None:
    """Parameters, bytes and operations of one token; None for a shape that is not known, or larger than any model's.

    `weights_bytes`: the checkpoint's size where it was read; the counted bytes are scaled to it, and stand for
    themselves without it.
    """
    try:
        root = config.fresh()
        language, kind = language_of(root)
        if kind not in TRAITS:
            return None
        described = shape(language, TRAITS[kind], kind)
        parts = count_model.trunk(described, tied(root, described))
        if total(parts) > MOST_BYTES:
            return None
        per_token = widths.experts_per_token(language)
        return _work(described, parts, _sizes(root, language, parts, weights_bytes), per_token, layout)
    except (KvlabError, IndexError, ArithmeticError):
        return None


def _sizes(root: Config, language: Config, parts: list[Part], weights_bytes: int | None) -> list[float] | None:
    """Bytes of each part; None when neither the format nor the size of the checkpoint is known."""
    plain, rules = count_bytes.dtype_bytes(root, language), count_bytes.rules(root, language, None)
    if plain is None or rules is None:
        plain, rules = 2, Rules(default=None)
        if weights_bytes is None:
            return None
    sizes = [float(count_bytes.part_bytes(part, rules, plain)) for part in parts]
    scale = weights_bytes / sum(sizes) if weights_bytes is not None else 1.0
    return [size * scale for size in sizes]


def _work(
    described: Shape, parts: list[Part], sizes: list[float] | None, per_token: int | None, layout: Layout
) -> Work | None:
    if sizes is None:
        return None
    heads = any(part.name == "lm_head" for part in parts)
    dense_parameters, dense_bytes = 0, 0.0
    routed: dict[str, tuple[int, int, float]] = {}
    for part, size in zip(parts, sizes, strict=True):
        if part.experts and part.copies > 1:
            layer = _LAYER.search(part.name)
            at = layer[1] if layer else ""
            _, parameters, held = routed.get(at, (0, 0, 0.0))
            routed[at] = (part.copies, parameters + part.out * part.into, held + size / part.copies)
        elif part.name not in _LOOKED_UP and not (part.name == "model.embed_tokens" and heads):
            dense_parameters += part.parameters
            dense_bytes += size
    if routed and per_token is None:
        return None
    groups = Counter(routed.values())
    experts = tuple(
        Experts(layers=layers, count=count, per_token=min(per_token or 1, count), parameters=parameters, bytes=held)
        for (count, parameters, held), layers in groups.items()
    )
    return Work(
        dense_parameters=dense_parameters,
        dense_bytes=dense_bytes,
        experts=experts,
        attention=_attention(described, layout),
    )


def _attention(described: Shape, layout: Layout) -> tuple[Attends, ...]:
    """Operations of attention by kinds of layers; recurrent mixers cost next to nothing beside their projections."""
    config = described.config
    rows = {layer: row for row in layout.rows if row.kind not in ("indexer", "state") for layer in row.layers}
    kinds = count_mixers.mixer_kinds(config, described.layers)
    found: Counter[tuple[float, float, int | None]] = Counter()
    for layer in range(described.layers):
        if (kinds[layer] if kinds else described.traits.layer) != "attention":
            continue
        found.update(_layer(described, layer, rows.get(layer)))
    return tuple(
        Attends(layers=layers, prefill=prefill, decode=decode, most=most)
        for (prefill, decode, most), layers in found.items()
    )


def _layer(described: Shape, layer: int, row: Row | None) -> list[tuple[float, float, int | None]]:
    """Operations for a pair of tokens in prefill and in decoding: 2 for each value of the score and of the sum."""
    config = described.config
    if count_attention.is_latent(config):
        heads, rank = config.need(*HEADS), config.need("kv_lora_rank")
        nope, rope = config.need("qk_nope_head_dim", least=0), config.need("qk_rope_head_dim", least=0)
        values = config.maybe("v_head_dim") or described.hidden // heads
        picked = config.maybe("index_topk")
        cost = (2.0 * heads * (nope + rope + values), 2.0 * heads * (2 * rank + rope), picked)
        if picked is None or not config.has("index_n_heads", "index_head_dim"):
            return [cost]
        scores = 2.0 * config.need("index_n_heads") * config.need("index_head_dim")
        return [cost, (scores, scores, None)]
    held = count_attention.heads_of(described, layer)
    if held is None:
        return []
    pair = 2.0 * held.heads * (held.k_dim + held.v_dim)
    return [(pair, pair, row.window if row is not None else None)]
