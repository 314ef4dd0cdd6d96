"""Which tensor and pipeline parallel sizes SGLang takes for a layout, and what each rank holds of it."""

from __future__ import annotations

from kvlab.core.errors import BadInput
from kvlab.core.layout import Layout, Row
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.engines.sglang.arguments import attention_groups


def attention_ranks(ask: Ask) -> int:
    """Ranks over which attention heads and recurrent states are split: those of one DP-attention group."""
    return (ask.tp or 1) // attention_groups(ask)


def check_parallel(model: Model, layout: Layout, ask: Ask) -> None:
    """Raises BadInput naming the numbers that do not divide."""
    tp = ask.tp or 1
    ranks = attention_ranks(ask)
    if model.heads is not None and model.heads % ranks:
        raise BadInput(
            f"SGLang cannot split {model.heads} attention heads over {ranks} ranks; use {_divisors(model.heads)}"
        )
    for row in layout.rows:
        if row.kind in ("full", "window", "chunked") and row.heads % ranks and ranks % row.heads:
            raise BadInput(
                f"SGLang cannot split or copy {row.heads} KV heads over {ranks} ranks; use {_divisors(row.heads)}"
            )
    if model.layers and ask.pp > model.layers:
        raise BadInput(f"--pp {ask.pp} leaves stages without layers; the model has {model.layers}")
    if ask.ep > 1 and tp % ask.ep:
        raise BadInput(f"--ep {ask.ep} must divide --tp {tp}: experts are spread over its ranks")


def stages(layers: int, count: int) -> tuple[range, ...]:
    """Layers of each pipeline stage; the last stages take what does not divide (get_pp_indices of 0.5.23)."""
    each, rest = divmod(layers, count)
    found, start = [], 0
    for stage in range(count):
        size = each + (stage >= count - rest)
        found.append(range(start, start + size))
        start += size
    return tuple(found)


def stages_of(model: Model, layout: Layout, ask: Ask) -> tuple[range, ...]:
    """Stages of a model by its layers, or by the highest layer of its layout."""
    highest = max((layer for row in layout.rows for layer in row.layers), default=-1) + 1
    return stages(max(model.layers, highest), ask.pp)


def on_stage(row: Row, stage: range) -> int:
    """How many layers of a row a stage holds."""
    return sum(layer in stage for layer in row.layers)


def _divisors(number: int) -> str:
    sizes = [str(size) for size in range(1, number + 1) if number % size == 0]
    return "--tp " + ", ".join(sizes[:8])
