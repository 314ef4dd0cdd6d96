"""Which tensor, pipeline and context parallel sizes vLLM takes for a layout."""

from __future__ import annotations

from kvlab.core.errors import BadInput
from kvlab.core.layout import Layout
from kvlab.core.model import Model
from kvlab.core.plan import Ask


def check_parallel(model: Model, layout: Layout, ask: Ask) -> None:
    """Raises BadInput naming the numbers that do not divide."""
    tp = ask.tp or 1
    if min(tp, ask.pp, ask.dcp) < 1:
        raise BadInput(f"--tp {tp}, --pp {ask.pp} and --dcp {ask.dcp} must be at least 1")
    if model.heads is not None and model.heads % tp:
        raise BadInput(f"vLLM cannot split {model.heads} attention heads over --tp {tp}; use {_divisors(model.heads)}")
    for row in layout.rows:
        if row.kind in ("full", "window", "chunked", "cross") and row.heads % tp and tp % row.heads:
            raise BadInput(f"vLLM cannot split or copy {row.heads} KV heads over --tp {tp}; use {_divisors(row.heads)}")
    if model.layers and ask.pp > model.layers:
        raise BadInput(f"--pp {ask.pp} leaves stages without layers; the model has {model.layers}")
    if ask.dcp > 1:
        _check_dcp(layout, tp, ask.dcp)


def _check_dcp(layout: Layout, tp: int, dcp: int) -> None:
    if layout.windowed:
        raise BadInput("vLLM has no decode context parallelism (--dcp) with sliding-window or chunked attention")
    if tp % dcp:
        raise BadInput(f"--dcp {dcp} must divide --tp {tp}: it reuses the tensor-parallel ranks")
    heads = max((row.heads for row in layout.only("full")), default=1)
    copies = tp // heads
    if dcp > max(copies, 1):
        raise BadInput(
            f"--dcp {dcp} needs at least {dcp} copies of each KV head, but --tp {tp} over {heads} KV heads makes"
            f" {max(copies, 1)}; use --tp {dcp * heads} or --dcp {max(copies, 1)}"
        )


def _divisors(number: int) -> str:
    sizes = [str(size) for size in range(1, number + 1) if number % size == 0]
    return "--tp " + ", ".join(sizes[:8])
