"""Charts of a sweep: latencies, throughput and goodput over the load."""

from __future__ import annotations

from typing import Any

import altair as alt

from kvlab.core.sweep import Estimate, Spread, Sweep, SweepPoint
from kvlab.reporting.charts.drawing import ARM_A, BAND, MUTED, SERIES, WIDTH, Drawing, data, untitled

_HEIGHT = 220
_TITLES = {"ttft": "Time to first token", "tpot": "Time per output token", "e2el": "Whole request"}
_UNITS = {"concurrency": "requests in flight", "rate": "requests a second offered"}


def drawings(value: Sweep) -> tuple[Drawing, ...]:
    """Every chart that the sweep has the numbers for."""
    found = (
        latency(value, "ttft"),
        latency(value, "tpot"),
        latency(value, "e2el"),
        throughput(value),
        goodput(value),
        cost(value),
    )
    return tuple(drawing for drawing in found if drawing is not None)


def latency(value: Sweep, metric: str) -> Drawing | None:
    """Mean, median and p99 of a latency, each with its interval, and the objective."""
    rows = []
    for one in value.points:
        spread = _spread(one, metric)
        if spread is not None:
            for name, estimate in (("mean", spread.mean), ("median", spread.median), ("p99", spread.p99)):
                rows.append(_row(one.load, estimate, 1000, series=name))
    if not rows:
        return None
    names = ["median", "mean", "p99"]
    colours = alt.Color("series:N", scale=alt.Scale(domain=names, range=list(SERIES[:3])), legend=untitled())
    dashes = alt.StrokeDash(
        "series:N", scale=alt.Scale(domain=names, range=[[1, 0], [7, 3], [2, 2]]), legend=untitled()
    )
    high = max(row["y"] for row in rows) > 50 * min(row["y"] for row in rows)
    scale = alt.Scale(type="log", nice=True) if high else alt.Scale(zero=True)
    y = alt.Y("y:Q", title="milliseconds", scale=scale)
    base = alt.Chart(data(rows))
    layers: list[Any] = [
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.5, opacity=0.6)
        .encode(x=_x(value), y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colours),
        base.mark_line(strokeWidth=2).encode(x=_x(value), y=y, color=colours, strokeDash=dashes),
        base.mark_point(size=36, filled=True).encode(x=_x(value), y=y, color=colours),
    ]
    limit = next((one.limit_ms for one in value.objectives if one.metric == metric), None)
    if limit is not None:
        layers.append(_level(limit, f"objective: {limit:g} ms"))
    told = "" if limit is None else f" The level line is the objective, {limit:g} ms."
    return Drawing(
        name=f"sweep-{metric}",
        title=_TITLES[metric],
        text=f"Median, mean and 99th percentile at each load, with 95 % intervals.{told}{_ends(value)}",
        chart=alt.layer(*_marks(value), *layers).properties(width=WIDTH, height=_HEIGHT),
    )


def throughput(value: Sweep) -> Drawing | None:
    """Output tokens a second, with the knee and its interval."""
    rows = [_row(one.load, one.output_throughput) for one in value.points if one.output_throughput is not None]
    if not rows:
        return None
    layers: list[Any] = [*_marks(value)]
    knee = value.knee.load
    told = ""
    if knee is not None:
        band = alt.Chart(data([{"low": knee.low, "high": knee.high}])).mark_rect(color=BAND, opacity=0.45)
        layers.insert(0, band.encode(x=alt.X("low:Q"), x2="high:Q"))
        told = f" The band is the knee's interval around {knee.value:.3g}."
    layers += _curve(value, rows, "output tokens a second", alt.Scale(zero=True))
    return Drawing(
        name="sweep-throughput",
        title="Output throughput",
        text=f"Output tokens a second while the load was steady, with 95 % intervals.{told}{_ends(value)}",
        chart=alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT),
    )


def goodput(value: Sweep) -> Drawing | None:
    """Share of the requests that met the objectives, with Wilson's interval and the target."""
    rows = [
        _row(one.load, Estimate(one.goodput.share.value, one.goodput.share.low, one.goodput.share.high))
        for one in value.points
        if one.goodput is not None
    ]
    if not rows:
        return None
    scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(format="%")
    layers = [*_marks(value), *_curve(value, rows, "requests that met", scale, axis)]
    layers.append(_level(value.target, f"target: {value.target * 100:g} %"))
    return Drawing(
        name="sweep-goodput",
        title="Goodput",
        text="Share of the requests that met every objective, with Wilson's interval; the level line is the target."
        f"{_ends(value)}",
        chart=alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT),
    )


def cost(value: Sweep) -> Drawing | None:
    """Dollars per million output tokens over the load."""
    rows = [_row(one.load, one.per_million_output) for one in value.points if one.per_million_output is not None]
    if not rows:
        return None
    layers = [*_marks(value), *_curve(value, rows, "dollars per million output tokens", alt.Scale(zero=True))]
    return Drawing(
        name="sweep-cost",
        title="Cost of output",
        text=f"Dollars per million output tokens with the whole price on them, with 95 % intervals.{_ends(value)}",
        chart=alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT),
    )


def _spread(one: SweepPoint, metric: str) -> Spread | None:
    return {"ttft": one.ttft, "tpot": one.tpot, "e2el": one.e2e}[metric]


def _row(load: float, estimate: Estimate | None, scale: float = 1, **fields: str) -> dict[str, Any]:
    assert estimate is not None  # rows are made of what there is
    ends = {
        name: None if end is None else end * scale for name, end in (("low", estimate.low), ("high", estimate.high))
    }
    return {"x": load, "y": estimate.value * scale, **ends, **fields}


def _x(value: Sweep) -> alt.X:
    loads = [one.load for one in value.points]
    wide = max(loads) > 8 * min(loads)
    scale = alt.Scale(type="log" if wide else "linear", zero=False, nice=False, padding=12)
    axis = alt.Axis(values=loads, format="~g", grid=False, labelOverlap="greedy")
    return alt.X("x:Q", title=_UNITS[value.over], scale=scale, axis=axis)


def _curve(
    value: Sweep, rows: list[dict[str, Any]], title: str, scale: alt.Scale, axis: alt.Axis | None = None
) -> list[Any]:
    y = alt.Y("y:Q", title=title, scale=scale, axis=axis or alt.Axis())
    base = alt.Chart(data(rows)).encode(x=_x(value))
    return [
        base.transform_filter("isValid(datum.low) && isValid(datum.high)")
        .mark_rule(strokeWidth=1.5, color=ARM_A, opacity=0.6)
        .encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_line(strokeWidth=2, color=ARM_A).encode(y=y),
        base.mark_point(size=40, filled=True, color=ARM_A, opacity=1).encode(y=y),
    ]


def _level(at: float, text: str) -> Any:
    base = alt.Chart(data([{"y": at, "text": text}]))
    line = base.mark_rule(strokeDash=[4, 3], color=MUTED).encode(y="y:Q")
    label = base.mark_text(align="left", dx=4, dy=9, color=MUTED).encode(x=alt.value(0), y="y:Q", text="text:N")
    return alt.layer(line, label)


def _marks(value: Sweep) -> list[Any]:
    """A rule at the safe load, and one at the first that fails."""
    found = []
    for load, text in ((value.safe.meets_at, "meets"), (value.safe.fails_at, "fails")):
        if load is None:
            continue
        base = alt.Chart(data([{"x": load, "text": text}])).encode(x=_x(value))
        dash = [1, 0] if text == "meets" else [2, 3]
        found.append(base.mark_rule(color=MUTED, strokeDash=dash, strokeWidth=1))
        found.append(
            base.mark_text(align="right" if text == "meets" else "left", dx=-4 if text == "meets" else 4).encode(
                y=alt.value(30), text="text:N"
            )
        )
    return found


def _ends(value: Sweep) -> str:
    safe = value.safe
    if safe.meets_at is None and safe.fails_at is None:
        return ""
    meets = "no load meets" if safe.meets_at is None else f"{safe.meets_at:g} meets"
    fails = "none fails" if safe.fails_at is None else f"{safe.fails_at:g} fails"
    return f" Upright lines: {meets}, {fails}."
