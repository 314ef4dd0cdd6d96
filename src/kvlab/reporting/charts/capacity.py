"""An axis of cache sizes: blocks, and below them bytes where a block's size is known."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import altair as alt

from kvlab.core.units import GIB, size

_WIDE = 8
"""Times the smallest size from which the axis is logarithmic."""
_MOST = 9
"""Ticks."""


def axis(blocks: Sequence[int], title: str, bytes_per_block: float | None, ticks: Sequence[float] = ()) -> alt.X:
    """The field "x" in blocks, logarithmic over a wide range; `ticks`: those to label, else round numbers."""
    low, high = min(blocks), max(blocks)
    wide = high > _WIDE * low
    places = list(ticks) or (_round(low, high) if wide else [])
    below = "" if bytes_per_block is None else ", and their memory"
    scale = alt.Scale(type="log" if wide else "linear", zero=False, nice=False, padding=12)
    return alt.X("x:Q", title=f"{title}{below}", scale=scale, axis=_axis(places, bytes_per_block))


def _axis(places: list[float], bytes_per_block: float | None) -> alt.Axis:
    if not places:
        return alt.Axis(format=",.0f", tickCount=6, grid=False, labelOverlap="greedy")
    labels = {
        f"{at:.0f}": [f"{at:,.0f}"] if bytes_per_block is None else [f"{at:,.0f}", _memory(at * bytes_per_block)]
        for at in places
    }
    told = f"({json.dumps(labels)})[format(datum.value, '.0f')]"
    return alt.Axis(values=places, labelExpr=told, grid=False, labelOverlap="greedy")


def _memory(amount: float) -> str:
    return f"{amount / GIB:,.0f} GiB" if amount >= 100 * GIB else size(round(amount))


def _round(low: float, high: float) -> list[float]:
    """Powers of ten from `low` to `high`, with their double and fivefold where there is room, the ends left out."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [float(factor * 10**at) for at in decades for factor in factors if low <= factor * 10**at <= high]
        if len(found) <= _MOST:
            return found
    return found[:: -(-len(found) // _MOST)]
