"""Charts of a workload: lengths, the hit-rate curve, and pools under load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from kvlab.core.traffic import CurvePoint, LengthCurve, PoolLoad, Reuse, Traffic, UnderLoad
from kvlab.core.units import listed
from kvlab.reporting import traffic_words
from kvlab.reporting.charts import capacity, traffic_bars
from kvlab.reporting.charts.drawing import ARM_A, BAND, MUTED, SERIES, WIDTH, Drawing, data, thin, untitled

_POINTS = 400
_HEIGHT = 240
_WIDE = 50
"""Times the smallest value from which an axis is logarithmic."""
_DASHES = [[1, 0], [7, 3], [2, 2]]
_TOKENS, _BLOCKS = "tokens found", "blocks found"


def drawings(value: Traffic) -> tuple[Drawing, ...]:
    """Every chart that the workload has the numbers for, in the order of the page."""
    reuse = value.reuse
    found = (
        lengths(value),
        None if reuse is None else curve(reuse),
        None if reuse is None or reuse.tiers is None else traffic_bars.tiers(reuse.tiers),
        None if reuse is None or reuse.replicas is None else traffic_bars.replicas(reuse.replicas),
        None if value.breakers is None else traffic_bars.breakers(value.breakers),
        None if value.load is None else waiting(value.load),
        None if value.load is None else preemptions(value.load),
        traffic_bars.waste(value.paging),
    )
    return tuple(drawing for drawing in found if drawing is not None)


def lengths(value: Traffic) -> Drawing | None:
    """Share of the requests with at most so many tokens, with the context limit and its percentile."""
    curves = value.length_curves
    if curves is None:
        return None
    named = {"prompt": curves.input_tokens, "answer": curves.output_tokens, "total": curves.total_tokens}
    columns = {name: steps for name, steps in named.items() if steps is not None}
    rows = [row for name, steps in columns.items() for row in _steps(name, steps)]
    limit = value.context
    low, high = min(row["x"] for row in rows), max(row["x"] for row in rows)
    wide = high > _WIDE * low
    scale = alt.Scale(type="log", nice=False) if wide else alt.Scale(zero=True)
    places = [10**at for at in range(8) if 10**at <= high]
    axis = alt.Axis(format=",.0f", labelOverlap="greedy", **({"values": places} if wide else {"tickCount": 6}))
    x = alt.X("x:Q", title="tokens", scale=scale, axis=axis)
    y = alt.Y("y:Q", title="share of requests", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    lines = alt.Chart(data(rows)).mark_line(interpolate="step-after", strokeWidth=2)
    lines = lines.encode(x=x, y=y, color=_colour("column", list(columns)), strokeDash=_dash("column", list(columns)))
    thinned = [name for name, steps in columns.items() if len(steps.tokens) < steps.distinct]
    text = (
        "Share of the requests with at most so many tokens. Upright line: the context limit of"
        f" {limit.recommended:,} tokens; level line: the percentile that it holds, p{limit.percentile:g}."
    )
    if thinned:
        text += f" Drawn in steps of half a point ({listed(thinned)}); every step is exact."
    if any(steps.tokens[0] < 1 for steps in columns.values()) and wide:
        text += " Requests of no token are drawn at 1."
    return Drawing(
        name="traffic-lengths",
        title="How long requests are",
        text=text,
        chart=alt.layer(*_limit(value), lines).properties(width=WIDTH, height=_HEIGHT),
    )


def _steps(column: str, steps: LengthCurve) -> list[dict[str, Any]]:
    """The curve from the axis up; a logarithmic scale has no 0."""
    points = [(steps.tokens[0], 0.0), *zip(steps.tokens, steps.shares, strict=True)]
    return [{"x": max(1, tokens), "y": share, "column": column} for tokens, share in points]


def _limit(value: Traffic) -> list[Any]:
    limit = value.context
    at = alt.Chart(data([{"x": limit.recommended, "text": f"limit: {limit.recommended:,}"}])).encode(x="x:Q")
    level = alt.Chart(data([{"y": limit.percentile / 100, "text": f"p{limit.percentile:g}"}])).encode(y="y:Q")
    return [
        at.mark_rule(color=MUTED, strokeDash=[4, 3]),
        at.mark_text(align="right", dx=-5, color=MUTED).encode(y=alt.value(_HEIGHT - 12), text="text:N"),
        level.mark_rule(color=MUTED, strokeDash=[4, 3]),
        level.mark_text(align="left", dx=4, dy=9, color=MUTED).encode(x=alt.value(0), text="text:N"),
    ]


def curve(reuse: Reuse) -> Drawing | None:
    """What an LRU cache of every size finds, with the other policies where they were asked for; None for one point."""
    points = thin(reuse.curve, _POINTS)
    if len(points) < 2:
        return None
    asked = [one for one in thin(reuse.policies, _POINTS) if one.policy != "lru"]
    blocks = [point.capacity_blocks for point in points] + [one.capacity_blocks for one in asked]
    x = capacity.axis(blocks, f"blocks of {reuse.block_size:,} tokens", _block_bytes(points))
    top = alt.Y("y:Q", title="found in the cache", axis=alt.Axis(format="%"), scale=alt.Scale(zero=True))
    names = [_TOKENS, _BLOCKS]
    rows = [row for point in points for row in _rates(point)]
    lines = alt.Chart(data(rows)).mark_line(strokeWidth=2).encode(x=x, y=top)
    layers: list[Any] = [lines.encode(color=_colour("what", names), strokeDash=_dash("what", names))]
    if reuse.sampled is not None:
        band = alt.Chart(data([row for row in rows if "low" in row])).mark_area(color=BAND, opacity=0.5)
        layers.insert(0, band.encode(x=x, y=alt.Y("low:Q", title="found in the cache"), y2="high:Q"))
    if asked:
        layers.append(_policies(reuse, x))
    told = f" Each of {len(points):,} points is exact, lines join them."
    if reuse.sampled is not None:
        told = f" Estimated at {len(points):,} points; the band holds the blocks found with about 95 % confidence."
    if len(points) < len(reuse.curve):
        told += f" {len(reuse.curve):,} points were thinned to these."
    others = " Marks: blocks found by other policies." if asked else ""
    return Drawing(
        name="traffic-curve",
        title="What a cache of each size finds (LRU)",
        text=f"Share of the prompt tokens, and of the blocks, that a cache of that size finds.{told}{others}",
        chart=alt.layer(*layers)
        .resolve_scale(color="independent", strokeDash="independent", shape="independent")
        .properties(width=WIDTH, height=_HEIGHT),
    )


def _rates(point: CurvePoint) -> list[dict[str, Any]]:
    blocks = {"x": point.capacity_blocks, "y": point.hit_rate, "what": _BLOCKS}
    if point.error is not None:
        blocks |= {"low": max(0.0, point.hit_rate - point.error), "high": min(1.0, point.hit_rate + point.error)}
    return [{"x": point.capacity_blocks, "y": point.token_hit_rate, "what": _TOKENS}, blocks]


def _block_bytes(points: Sequence[CurvePoint]) -> float | None:
    """Bytes of a block; None where no model was named."""
    largest = points[-1]
    return None if largest.capacity_bytes is None else largest.capacity_bytes / largest.capacity_blocks


def _policies(reuse: Reuse, x: alt.X) -> Any:
    asked = [one for one in thin(reuse.policies, _POINTS) if one.policy != "lru"]
    rows = [{"x": one.capacity_blocks, "y": one.hit_rate, "policy": traffic_words.policy(one.policy)} for one in asked]
    names = list(dict.fromkeys(str(row["policy"]) for row in rows))
    colours = alt.Scale(domain=names, range=[SERIES[(at + 2) % len(SERIES)] for at in range(len(names))])
    shapes = alt.Scale(domain=names, range=["circle", "diamond", "triangle-up"][: len(names)])
    marks = alt.Chart(data(rows)).mark_point(filled=True, size=60, opacity=1)
    return marks.encode(
        x=x,
        y="y:Q",
        color=alt.Color("policy:N", scale=colours, legend=untitled()),
        shape=alt.Shape("policy:N", scale=shapes, legend=untitled()),
    )


def waiting(load: UnderLoad) -> Drawing | None:
    """Time to first token and waiting over the size of the pool; None for a single pool, which has no curve."""
    if len({one.pool_blocks for one in load.pools}) < 2:
        return None
    names = ["TTFT p50", "TTFT p99", "waited p99"]
    rows: list[dict[str, Any]] = [
        {"x": one.pool_blocks, "y": max(1.0, milliseconds) / 1000, "what": name}
        for one in thin(load.pools, _POINTS)
        for name, milliseconds in zip(names, (one.ttft.p50, one.ttft.p99, one.waited.p99), strict=True)
    ]
    short = any(min(one.ttft.p50, one.waited.p99) < 1 for one in load.pools)
    wide = max(row["y"] for row in rows) > _WIDE * min(row["y"] for row in rows)
    scale = alt.Scale(type="log", nice=True) if wide else alt.Scale(zero=True)
    base = alt.Chart(data(rows)).encode(
        x=_pools(load.pools, load.block_size),
        y=alt.Y("y:Q", title="seconds", scale=scale, axis=alt.Axis(format=",~r", tickCount=5)),
        color=_colour("what", names),
    )
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=_dash("what", names))
    return Drawing(
        name="traffic-load",
        title="Waiting over the size of the pool",
        text="Time to first token (median and 99th percentile) and 99th percentile of the time from arrival to"
        f" admission, of simulated pools.{' Less than 1 ms is drawn at 1 ms.' if short else ''}",
        chart=alt.layer(lines, base.mark_point(size=40, filled=True, opacity=1)).properties(
            width=WIDTH, height=_HEIGHT
        ),
    )


def preemptions(load: UnderLoad) -> Drawing | None:
    """Preemptions over the size of the pool; None where there are none, or a single pool."""
    sizes = {one.pool_blocks for one in load.pools}
    if len(sizes) < 2 or not any(one.preemptions for one in load.pools):
        return None
    rows = [{"x": one.pool_blocks, "y": one.preemptions} for one in thin(load.pools, _POINTS)]
    axis = alt.Axis(format=",.0f", tickMinStep=1, tickCount=5)
    y = alt.Y("y:Q", title=load.preemption_word, scale=alt.Scale(zero=True), axis=axis)
    base = alt.Chart(data(rows)).encode(x=_pools(load.pools, load.block_size), y=y)
    points = base.mark_point(size=40, filled=True, color=ARM_A, opacity=1)
    return Drawing(
        name="traffic-preemptions",
        title=f"{load.preemption_word.capitalize()} over the size of the pool",
        text="How often a simulated pool took its blocks from a request that ran, which was then computed again.",
        chart=alt.layer(base.mark_line(strokeWidth=2, color=ARM_A), points).properties(width=WIDTH, height=160),
    )


def _pools(pools: Sequence[PoolLoad], block: int) -> alt.X:
    sizes = sorted({one.pool_blocks for one in pools})
    last = pools[-1]
    each = None if last.pool_bytes is None else last.pool_bytes / last.pool_blocks
    return capacity.axis(sizes, f"pool, blocks of {block:,} tokens", each, [float(at) for at in thin(sizes, 8)])


def _colour(field: str, names: Sequence[str]) -> alt.Color:
    scale = alt.Scale(domain=list(names), range=list(SERIES[: len(names)]))
    return alt.Color(f"{field}:N", scale=scale, legend=_legend())


def _dash(field: str, names: Sequence[str]) -> alt.StrokeDash:
    return alt.StrokeDash(
        f"{field}:N", scale=alt.Scale(domain=list(names), range=_DASHES[: len(names)]), legend=_legend()
    )


def _legend() -> alt.Legend:
    """Of lines, whose points it leaves out."""
    return alt.Legend(title=None, symbolType="stroke", symbolOpacity=1, symbolSize=260, symbolStrokeWidth=2)
