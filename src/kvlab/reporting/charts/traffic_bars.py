"""Bars of a workload: tiers, replicas, what breaks prefixes, memory that is reserved and not used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from kvlab.core.breaker import Breakers
from kvlab.core.traffic import PagingLine, Replicas, Tiers
from kvlab.reporting import traffic_words, words
from kvlab.reporting.charts.drawing import ARM_A, BAND, INK, PAGE, SERIES, WIDTH, Drawing, data

_AGAIN = "not found"
_MOST = 12
"""Bars."""
_LABEL = 40
"""Characters of a bar's name."""
_WORTH_A_LABEL = 0.06
"""Share of the bar from which a piece holds its own figure."""


def tiers(value: Tiers) -> Drawing:
    """One bar: what each tier finds of all blocks, and what none does."""
    parts = [(f"{at} {_name(one.name)}", one.hit_rate) for at, one in enumerate(value.tiers, 1)]
    names = [name for name, _ in parts]
    rows: list[dict[str, Any]] = []
    start = 0.0
    for name, rate in [*parts, (_AGAIN, max(0.0, 1 - value.hit_rate))]:
        label = words.share(rate) if rate >= _WORTH_A_LABEL else ""
        rows.append({"part": name, "start": start, "end": start + rate, "middle": start + rate / 2, "label": label})
        start += rate
    colours = [SERIES[at % len(SERIES)] for at in range(len(names))]
    scale = alt.Scale(domain=[*names, _AGAIN], range=[*colours, BAND])
    x = alt.X(
        "start:Q", title="share of all blocks", axis=alt.Axis(format="%", tickCount=5), scale=alt.Scale(domain=[0, 1])
    )
    base = alt.Chart(data(rows))
    bars = base.mark_bar(size=34, stroke=PAGE, strokeWidth=1.5).encode(
        x=x, x2="end:Q", color=alt.Color("part:N", scale=scale, legend=alt.Legend(columns=4, symbolType="square"))
    )
    figures = [
        chosen.mark_text(color=colour, fontWeight="bold").encode(x="middle:Q", text="label:N")
        for chosen, colour in (
            (base.transform_filter(f"datum.part !== '{_AGAIN}'"), PAGE),
            (base.transform_filter(f"datum.part === '{_AGAIN}'"), INK),
        )
    ]
    return Drawing(
        name="traffic-tiers",
        title="Where blocks are found",
        text=f"Share of all blocks that each tier finds, from the top of the chain on, {value.kind}.",
        chart=alt.layer(bars, *figures).properties(width=WIDTH, height=56),
    )


def replicas(value: Replicas) -> Drawing:
    """What all replicas find together under each way of routing."""
    rows = [(words.plain(one.name), one.hit_rate, words.share(one.hit_rate)) for one in value.routing]
    return Drawing(
        name="traffic-replicas",
        title=f"Blocks found by {value.count} replicas",
        text=f"Share of all blocks under each way of routing; each replica caches {value.capacity_blocks:,} blocks.",
        chart=_bars(rows, "share of all blocks", "%"),
    )


def breakers(value: Breakers) -> Drawing | None:
    """Prompt tokens that each cause costs, the costliest first."""
    if not value.found:
        return None
    first = value.found[:_MOST]
    rows = [(f"{at} {_name(one.where)}", float(one.tokens), f"{one.tokens:,}") for at, one in enumerate(first, 1)]
    more = f" {len(value.found) - _MOST} more are in the table." if len(value.found) > _MOST else ""
    return Drawing(
        name="traffic-breakers",
        title="Tokens lost to each cause",
        text=f"Prompt tokens that an endless cache does not find because of it, in the order of the table.{more}",
        chart=_bars(rows, "prompt tokens", ",.0f"),
    )


def waste(lines: Sequence[PagingLine]) -> Drawing | None:
    """Share of reserved memory that is not used, by the way of reserving."""
    if not lines:
        return None
    rows = [(words.plain(line.scheme), line.waste, traffic_words.waste(line.waste)) for line in lines]
    return Drawing(
        name="traffic-waste",
        title="Waste of each way of reserving",
        text="Share of the reserved tokens that hold nothing, over all decode steps, by the way of reserving them.",
        chart=_bars(rows, "share that is not used", "%"),
    )


def _name(text: str) -> str:
    plain = words.plain(" ".join(text.split()))
    return plain if len(plain) <= _LABEL else f"{plain[:_LABEL]} ..."


def _bars(rows: Sequence[tuple[str, float, str]], title: str, form: str) -> Any:
    """A bar a row with its figure behind it."""
    values = [{"name": name, "value": amount, "text": text} for name, amount, text in rows]
    base = alt.Chart(data(values)).encode(
        y=alt.Y("name:N", title=None, sort=None, axis=alt.Axis(ticks=False, domain=False)),
        x=alt.X("value:Q", title=title, axis=alt.Axis(format=form, tickCount=5), scale=alt.Scale(zero=True)),
    )
    labels = base.mark_text(align="left", dx=6).encode(text="text:N")
    return alt.layer(base.mark_bar(size=18, color=ARM_A), labels).properties(width=WIDTH - 180, height=26 * len(rows))
