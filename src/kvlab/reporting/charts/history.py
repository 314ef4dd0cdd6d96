"""One metric over the entries of a history."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from kvlab.reporting import words
from kvlab.reporting.charts.drawing import SERIES, WIDTH, Drawing, data, untitled
from kvlab.timeline import Entry


def metric_over_time(entries: Sequence[Entry], metric: str) -> Drawing:
    """The metric of each entry in order of time, coloured by the engine's version."""
    rows = [
        {
            "x": at + 1,
            "y": entry.metrics[metric],
            "engine": " ".join(filter(None, (entry.engine or "engine not stated", entry.version))),
            "kind": entry.kind,
            "label": entry.label,
            "name": f"{entry.time or 'no time'} {entry.path} {words.plain(entry.label)}",
        }
        for at, entry in enumerate(entries)
    ]
    engines = list(dict.fromkeys(str(row["engine"]) for row in rows))
    colours = [SERIES[at % len(SERIES)] for at in range(len(engines))]
    unit = "ms" if metric.endswith("_ms") else ""
    title = words.metric_with_unit(metric, unit)
    points = (
        alt.Chart(data(rows))
        .mark_point(filled=True, size=70, opacity=0.9)
        .encode(
            x=alt.X("x:Q", title="entries, in order of time", axis=alt.Axis(tickMinStep=1, format="d")),
            y=alt.Y("y:Q", title=title, scale=alt.Scale(zero=True)),
            color=alt.Color("engine:N", scale=alt.Scale(domain=engines, range=colours), legend=untitled()),
            shape=alt.Shape("kind:N", legend=alt.Legend(title=None)),
            tooltip="name:N",
        )
    )
    line = alt.Chart(data(rows)).mark_line(strokeWidth=1, opacity=0.5)
    line = line.encode(x="x:Q", y="y:Q", color="engine:N", detail="label:N")
    return Drawing(
        name=f"history-{metric}",
        title=title[:1].upper() + title[1:],
        text=f"{title} of {len(rows)} {'entry' if len(rows) == 1 else 'entries'}, the oldest first.",
        chart=alt.layer(line, points).properties(width=WIDTH, height=240),
    )
