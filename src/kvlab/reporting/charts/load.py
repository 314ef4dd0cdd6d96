"""Charts of the load runs: latency, throughput, cache use and queue."""

from __future__ import annotations

from typing import Any

import altair as alt

from kvlab.core.record import Record, Run
from kvlab.reporting.charts.drawing import MUTED, WIDTH, Drawing, arm_names, by_arm, data, thin, untitled

_POINTS = 400
_COLUMNS = 4
_PANELS = 8
"""Panels at most: of a longer experiment the first and the last four runs are drawn."""
_LABELLED = 12
"""Bars up to which each is labelled."""


def ttft_ecdf(record: Record) -> Drawing | None:
    """Share of requests whose first token came within a time; failed requests never count as answered."""
    names = arm_names(record)
    pooled: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    for arm, name in names.items():
        runs = [run for run in record.runs if run.arm == arm]
        pooled += _steps([row.ttft for run in runs for row in run.rows], {"arm": name})
        if len(runs) > 1:
            for run in runs:
                blocks += _steps([row.ttft for row in run.rows], {"arm": name, "block": run.block})
    if not pooled:
        return None
    times = [point["x"] for point in pooled if point["x"] > 0]
    scale = alt.Scale(type="log", nice=True) if times and max(times) > 50 * min(times) else alt.Scale(zero=True)
    x = alt.X("x:Q", title="time to first token, seconds", scale=scale, axis=alt.Axis(tickCount=8))
    y = alt.Y("y:Q", title="share of requests", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    solid, dashes = untitled(2.5), alt.Scale(domain=list(names.values()), range=[[1, 0], [7, 3]])
    dash = alt.StrokeDash("arm:N", scale=dashes, legend=solid)
    thick = alt.Chart(data(pooled)).mark_line(interpolate="step-after", strokeWidth=2.5)
    layers = [thick.encode(x=x, y=y, color=by_arm(names, solid), strokeDash=dash)]
    if blocks:
        faint = alt.Chart(data(blocks)).mark_line(interpolate="step-after", strokeWidth=1, opacity=0.45)
        layers.insert(0, faint.encode(x=x, y=y, color=by_arm(names, solid), strokeDash=dash, detail="block:N"))
    return Drawing(
        name="ttft-ecdf",
        title="Time to first token",
        text="Share of all requests whose first token came within a time, by arm. Thin lines: single runs. "
        "A curve that ends below 100 % had failed requests.",
        chart=alt.layer(*layers).properties(width=WIDTH, height=240),
    )


def _steps(times: list[float | None], fields: dict[str, Any]) -> list[dict[str, Any]]:
    seen = sorted(time for time in times if time is not None)
    points = [(time, (rank + 1) / len(times)) for rank, time in enumerate(seen)]
    start = [{"x": seen[0], "y": 0.0, **fields}] if seen else []
    return start + [{"x": time, "y": share, **fields} for time, share in thin(points, _POINTS)]


def tpot_time(record: Record) -> Drawing | None:
    """TPOT of each request at the time it completed, one panel per run."""
    rows = [
        {"x": row.scheduled + row.e2e, "y": row.tpot * 1000, **_block(record, run)}
        for run in _drawn(record)
        for row in thin(run.rows, _POINTS)
        if row.tpot is not None and row.e2e is not None
    ]
    if not rows:
        return None
    names = arm_names(record)
    shape = alt.Shape("arm:N", scale=alt.Scale(domain=list(names.values()), range=["circle", "diamond"]), legend=None)
    points = (
        alt.Chart()
        .mark_point(size=40, filled=True, opacity=0.85)
        .encode(
            x=alt.X("x:Q", title="seconds into the run"),
            y=alt.Y("y:Q", title="ms per output token", scale=alt.Scale(zero=True)),
            color=by_arm(names, untitled()),
            shape=shape,
        )
    )
    return Drawing(
        name="tpot-time",
        title="Time per output token over time",
        text="Each request at the time it completed, one panel per run, in their order.",
        chart=_panels(points, rows, record, 180),
    )


def throughput(record: Record) -> Drawing | None:
    """Output tokens a second of every run, in order."""
    rows = [
        {"y": run.metrics["output_throughput"], **_block(record, run)}
        for run in record.runs
        if "output_throughput" in run.metrics
    ]
    if not rows:
        return None
    few = len(rows) <= _LABELLED
    x = alt.X("block:N", title=None, sort=None, axis=alt.Axis(labelAngle=0 if few else -90))
    y = alt.Y("y:Q", title="output tokens a second")
    base = alt.Chart(data(rows)).encode(x=x, y=y)
    bars = base.mark_bar(size=min(64, WIDTH // (2 * len(rows)))).encode(color=by_arm(arm_names(record), untitled()))
    labels = base.mark_text(dy=-8).encode(text=alt.Text("y:Q", format=",.1f"))
    return Drawing(
        name="throughput",
        title="Output throughput of each run",
        text="Output tokens a second, one bar per run, in their order.",
        chart=alt.layer(bars, *([labels] if few else [])).properties(width=WIDTH, height=200),
    )


def cache_use(record: Record) -> Drawing | None:
    """Share of the cache in use as the engine reported it."""
    rows = _samples(record, {"kv_used_ratio": "cache in use"})
    if not rows:
        return None
    y = alt.Y("y:Q", title="cache in use", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    lines = alt.Chart().mark_line(interpolate="step-after", strokeWidth=1.8)
    lines = lines.encode(x=alt.X("x:Q", title="seconds into the run"), y=y, color=by_arm(arm_names(record), untitled()))
    return Drawing(
        name="cache-use",
        title="Cache use",
        text="Share of the cache that the engine reported as used, one panel per run.",
        chart=_panels(lines, rows, record, 130),
    )


def queue(record: Record) -> Drawing | None:
    """Requests running and waiting as the engine reported them."""
    rows = _samples(record, {"running": "running", "waiting": "waiting"})
    if not rows:
        return None
    dash = alt.StrokeDash(
        "word:N", scale=alt.Scale(domain=["running", "waiting"], range=[[1, 0], [4, 3]]), legend=alt.Legend(title=None)
    )
    lines = alt.Chart().mark_line(interpolate="step-after", strokeWidth=1.8)
    lines = lines.encode(
        x=alt.X("x:Q", title="seconds into the run"),
        y=alt.Y("y:Q", title="requests", axis=alt.Axis(tickMinStep=1)),
        color=by_arm(arm_names(record), untitled()),
        strokeDash=dash,
    )
    return Drawing(
        name="queue",
        title="Requests running and waiting",
        text="Requests that the engine reported as running (solid) and waiting (dashed), one panel per run.",
        chart=_panels(lines, rows, record, 130),
    )


def _samples(record: Record, named: dict[str, str]) -> list[dict[str, Any]]:
    """Samples of the named words; a sample without a word is absent from its line."""
    return [
        {"x": sample.at, "y": sample.values[key], "word": word, **_block(record, run)}
        for run in _drawn(record)
        for key, word in named.items()
        for sample in thin([sample for sample in run.samples if key in sample.values], _POINTS)
    ]


def _block(record: Record, run: Run) -> dict[str, Any]:
    return {"arm": arm_names(record)[run.arm], "block": _block_name(run)}


def _drawn(record: Record) -> tuple[Run, ...]:
    """The runs that get a panel of their own."""
    half = _PANELS // 2
    return record.runs if len(record.runs) <= _PANELS else (*record.runs[:half], *record.runs[-half:])


def _block_name(run: Run) -> str:
    return f"run {run.block + 1}: {run.arm.upper()}"


def _panels(chart: alt.Chart, rows: list[dict[str, Any]], record: Record, height: int) -> Any:
    names = list(dict.fromkeys(_block_name(run) for run in _drawn(record)))
    columns = min(len(names), _COLUMNS)
    panel = chart.properties(width=(WIDTH - 24 * (columns - 1)) // columns, height=height)
    facet = alt.Facet("block:N", sort=names, header=alt.Header(labelAnchor="start", labelColor=MUTED))
    return panel.facet(facet=facet, columns=columns, data=data(rows), spacing=24)
