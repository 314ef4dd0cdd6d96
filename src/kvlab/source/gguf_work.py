"""What one token costs in reading and computing, from the tensors of a GGUF file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvlab.core.config import Config
from kvlab.core.layout import Layout
from kvlab.core.model import Model
from kvlab.core.roofline import Attends, Experts, Work

_BLOCK = re.compile(r"blk\.(\d+)\.")
_LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight")


def work(sizes: Iterable[tuple[str, int, int]], model: Model, layout: Layout, config: Config) -> Work | None:
    """Parameters, bytes and operations of one token from (name, values, bytes) of every tensor.

    None for experts whose number the metadata does not state.
    """
    listed = list(sizes)
    heads = any(name == "output.weight" for name, _, _ in listed)
    count, visited = config.maybe("expert_count", least=0), config.maybe("expert_used_count", least=0)
    dense_parameters, dense_bytes = 0, 0
    routed: dict[int, tuple[int, int]] = {}
    for name, values, held in listed:
        block = _BLOCK.match(name)
        layer = int(block[1]) if block else None
        if layer is not None and layer >= model.layers:
            continue  # a layer that only drafts
        if "_exps." in name and layer is not None:
            before = routed.get(layer, (0, 0))
            routed[layer] = (before[0] + values, before[1] + held)
        elif name not in _LOOKED_UP or (name == _LOOKED_UP[0] and not heads):
            dense_parameters += values
            dense_bytes += held
    if routed and not (count and visited):
        return None
    experts = [
        Experts(
            layers=1,
            count=count or 1,
            per_token=min(visited or 1, count or 1),
            parameters=values // (count or 1),
            bytes=held / (count or 1),
        )
        for values, held in routed.values()
    ]
    return Work(
        dense_parameters=dense_parameters,
        dense_bytes=float(dense_bytes),
        experts=tuple(experts),
        attention=_attention(model, layout),
    )


def _attention(model: Model, layout: Layout) -> tuple[Attends, ...]:
    """2 operations for each value of the score and of the sum; latent attention as it is decoded."""
    heads = model.heads or 0
    return tuple(
        Attends(layers=len(row.layers), prefill=cost, decode=cost, most=row.window)
        for row in layout.rows
        if row.kind not in ("state", "indexer")
        for cost in [2.0 * heads * (row.k_dim + (row.v_dim or row.k_dim))]
    )
