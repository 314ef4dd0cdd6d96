"""Charts of what was judged: changes with their intervals, answers, prefix caching."""

from __future__ import annotations

from typing import Any

import altair as alt

from kvlab.core.comparison import ComparisonRow
from kvlab.core.record import Record
from kvlab.reporting import words
from kvlab.reporting.charts.drawing import ARM_A, ARM_B, BAND, INK, MUTED, WIDTH, Drawing, data

_FLOOR = "A against A"
_CANDIDATE = "A against B"


def changes(record: Record) -> Drawing | None:
    """Every compared metric with its interval, over the noise between runs of one arm."""
    compared = record.ab.performance if record.ab else ()
    rows = [
        {
            "metric": words.metric(row.metric, row.unit),
            "change": row.change if words.usable(row.change) else None,
            "low": row.low if words.usable(row.low, row.high) else None,
            "high": row.high if words.usable(row.low, row.high) else None,
            "noise": band,
            "less": None if band is None else -band,
            "verdict": _beside(row),
        }
        for row in compared
        if row.change is not None
        for band in (_band(row),)
    ]
    if not rows:
        return None
    width = WIDTH - 230
    y = alt.Y("metric:N", title=None, sort=None, axis=alt.Axis(ticks=False, domain=False))
    x = alt.X("change:Q", title="change of B against A", axis=alt.Axis(format="+%", tickCount=6))
    base = alt.Chart(data(rows)).encode(y=y)
    layers = [
        base.transform_filter("datum.noise !== null")
        .mark_bar(color=BAND, opacity=0.7, size=18)
        .encode(x="less:Q", x2="noise:Q"),
        alt.Chart(data([{"zero": 0}])).mark_rule(color=MUTED).encode(x="zero:Q"),
        base.transform_filter("datum.low !== null").mark_rule(color=INK, strokeWidth=2).encode(x="low:Q", x2="high:Q"),
        base.transform_filter("datum.change !== null").mark_point(color=INK, fill=INK, size=55, opacity=1).encode(x=x),
        base.mark_text(align="left").encode(x=alt.value(width + 10), text="verdict:N"),
    ]
    return Drawing(
        name="changes",
        title="Change of B against A",
        text="Each metric's change with its 95 % interval. In the grey band no difference was seen: it is what runs of"
        " one arm differ by.",
        chart=alt.layer(*layers).properties(width=width, height=26 * len(rows)),
    )


def _band(row: ComparisonRow) -> float | None:
    """Where no difference was seen; older records keep only the noise."""
    band = row.noise if row.margin is None else row.margin
    return band if words.usable(band) else None


def _beside(row: ComparisonRow) -> str:
    """The verdict, and in words what is too far out to be drawn."""
    far = "" if words.usable(row.change) else f", {words.change(row.change)}"
    lost = "" if row.low is None or words.usable(row.low, row.high) else f", {words.bounds(row.low, row.high)}"
    return words.signed(row.verdict) + far + lost


def quality(record: Record) -> Drawing | None:
    """Answers of B against A, beside A against itself."""
    value = record.ab.quality if record.ab else None
    if value is None or value.noise_floor is None or value.candidate is None:
        return None
    rows = [
        {
            "measure": measure,
            "who": who,
            "value": interval.value,
            "low": interval.low,
            "high": interval.high,
            "text": words.share(interval.value),
        }
        for measure, pair in (
            ("identical answers", (value.noise_floor.identical, value.candidate.identical)),
            ("average shared prefix", (value.noise_floor.shared_prefix, value.candidate.shared_prefix)),
        )
        for who, interval in zip((_FLOOR, _CANDIDATE), pair, strict=True)
    ]
    width = WIDTH - 200
    scale = alt.Scale(domain=[0, 1])
    y = alt.Y("who:N", title=None, sort=None, axis=alt.Axis(ticks=False, domain=False))
    colour = alt.Color("who:N", scale=alt.Scale(domain=[_FLOOR, _CANDIDATE], range=[MUTED, ARM_B]), legend=None)
    shape = alt.Shape("who:N", scale=alt.Scale(domain=[_FLOOR, _CANDIDATE], range=["circle", "diamond"]), legend=None)
    base = alt.Chart().encode(y=y, color=colour)
    rule = base.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q", scale=scale), x2="high:Q")
    x = alt.X("value:Q", title="share, with 95 % interval", axis=alt.Axis(format="%"), scale=scale)
    point = base.mark_point(filled=True, size=90, opacity=1).encode(x=x, shape=shape)
    label = alt.Chart().mark_text(align="left").encode(y=y, x=alt.value(width + 12), text="text:N")
    header = alt.Header(labelAngle=0, labelAnchor="start", labelOrient="top", labelColor=MUTED)
    facet = alt.Facet("measure:N", sort=["identical answers", "average shared prefix"], header=header)
    layered = alt.layer(rule, point, label).properties(width=width, height=52)
    return Drawing(
        name="quality",
        title="Answers: B against A, and A against itself",
        text="Share of identical answers and average shared prefix, each with its 95 % interval.",
        chart=layered.facet(facet=facet, columns=1, data=data(rows), spacing=14),
    )


def prefix(record: Record) -> Drawing | None:
    """TTFT of every request of the prefix experiment by its position in the round."""
    value = record.ab.prefix if record.ab else None
    if value is None or not value.requests:
        return None
    rows: list[dict[str, Any]] = []
    for request in value.requests:
        # Rounds stand beside each other, so that equal times do not hide one another.
        aside = (request.round - (value.rounds - 1) / 2) * 0.5 / max(value.rounds, 1)
        state = "cold" if request.position == 0 else "warm"
        rows.append({"x": request.position + 1 + aside, "y": request.ttft, "state": state})
    times = [row["y"] for row in rows]
    far = min(times) > 0 and max(times) > 5 * min(times)
    scale = alt.Scale(type="log", domain=[min(times) * 0.8, max(times) * 1.25]) if far else alt.Scale(zero=True)
    ticks = _decades(min(times) * 0.8, max(times) * 1.25) if far else alt.Undefined
    last = max(request.position for request in value.requests) + 1
    axis = alt.Axis(values=list(range(1, last + 1)), format="d", grid=False)
    x = alt.X("x:Q", title="request with the same prefix", axis=axis, scale=alt.Scale(domain=[0.5, last + 0.5]))
    states = ["cold", "warm"]
    points = alt.Chart(data(rows)).mark_point(filled=True, size=60, opacity=0.9)
    chart = points.encode(
        x=x,
        y=alt.Y("y:Q", title="time to first token, seconds", scale=scale, axis=alt.Axis(values=ticks)),
        color=alt.Color("state:N", scale=alt.Scale(domain=states, range=[ARM_A, ARM_B]), legend=alt.Legend(title=None)),
        shape=alt.Shape("state:N", scale=alt.Scale(domain=states, range=["circle", "diamond"])),
    )
    return Drawing(
        name="prefix",
        title="Time to first token, cold and warm",
        text="The first request with a prefix is cold, the others find it cached. One point per request.",
        chart=chart.properties(width=WIDTH, height=200),
    )


def _decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every decade between `low` and `high`: a log axis with these lines only."""
    values = (float(f"{digit}e{power}") for power in range(-6, 6) for digit in (1, 2, 5))
    return [value for value in values if low <= value <= high]
