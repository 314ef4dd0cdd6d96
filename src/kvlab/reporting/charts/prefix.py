"""Curves of the prefix experiment: time to first token over the prefix length, hits over the number of prefixes."""

from __future__ import annotations

from typing import Any

import altair as alt

from kvlab.core.quality import Prefix
from kvlab.reporting.charts.drawing import ARM_A, ARM_B, MUTED, WIDTH, Drawing, data, untitled

_ROOM = 1.5
"""An interval that reaches higher than so many times the slowest mean is cut there: it would hide the curve."""
_COLD, _WARM = "cold", "warm"
_SEEN, _LRU = "measured", "simulated: least recently used evicted first"


def curves(value: Prefix) -> tuple[Drawing, ...]:
    """The curves that the experiment has the numbers for."""
    return tuple(drawing for make in (lengths, churn) if (drawing := make(value)) is not None)


def lengths(value: Prefix) -> Drawing | None:
    """Cold and warm time to first token of every length, with intervals."""
    if value.lengths is None or not value.lengths.points:
        return None
    top = _ROOM * max(point.cold_ttft.value for point in value.lengths.points)
    rows: list[dict[str, Any]] = [
        {
            "x": point.prefix_tokens,
            "y": interval.value,
            "low": interval.low,
            "high": min(interval.high, top),
            "state": state,
        }
        for point in value.lengths.points
        for state, interval in ((_COLD, point.cold_ttft), (_WARM, point.warm_ttft))
    ]
    states = [_COLD, _WARM]
    x = alt.X("x:Q", title="tokens of the shared prefix", axis=alt.Axis(format=",.0f", tickCount=8))
    colour = alt.Color("state:N", scale=alt.Scale(domain=states, range=[ARM_A, ARM_B]), legend=untitled())
    shape = alt.Shape("state:N", scale=alt.Scale(domain=states, range=["circle", "diamond"]), legend=untitled())
    base = alt.Chart(data(rows)).encode(x=x, color=colour)
    y = alt.Y("y:Q", title="time to first token, seconds", scale=alt.Scale(zero=True))
    layers = [
        base.mark_line(strokeWidth=1.5).encode(y=y),
        base.mark_rule(strokeWidth=1.5).encode(y="low:Q", y2="high:Q"),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=y, shape=shape),
    ]
    return Drawing(
        name="prefix-lengths",
        title="Time to first token over the length of the prefix",
        text=f"Cold and warm, with 95 % intervals, cut at the top of the chart. {value.lengths.because}",
        chart=alt.layer(*layers).properties(width=WIDTH, height=240),
    )


def churn(value: Prefix) -> Drawing | None:
    """Hit share of the second visit over the tokens of all prefixes, with the stated pool as a line."""
    found = value.churn
    if found is None:
        return None
    rows: list[dict[str, Any]] = [
        {"x": point.tokens, "y": hits, "who": who}
        for point in found.points
        for who, hits in ((_SEEN, point.hit_share), (_LRU, point.lru_hit_share))
        if hits is not None
    ]
    if not rows:
        return None
    names = [_SEEN, _LRU]
    colour = alt.Color("who:N", scale=alt.Scale(domain=names, range=[ARM_B, MUTED]), legend=untitled())
    x = alt.X("x:Q", title="tokens of all prefixes together", axis=alt.Axis(format=",.0f", tickCount=8))
    y = alt.Y("y:Q", title="found at the second visit", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    # The simulation lies broad and pale below, so that both are seen where they agree.
    below, above = (
        alt.Chart(data([row for row in rows if row["who"] == who])).encode(x=x, y=y, color=colour)
        for who in (_LRU, _SEEN)
    )
    layers: list[Any] = [
        below.mark_line(strokeWidth=9, opacity=0.35),
        above.mark_line(strokeWidth=1.5),
        above.mark_point(filled=True, size=60, opacity=1, shape="diamond"),
    ]
    if found.pool_tokens is not None:
        pool = alt.Chart(data([{"pool": found.pool_tokens}])).mark_rule(color=MUTED, strokeDash=[4, 3])
        layers.insert(0, pool.encode(x="pool:Q"))
    return Drawing(
        name="prefix-churn",
        title="Hits over the number of prefixes",
        text=f"The dashed line is the stated pool. {found.because}",
        chart=alt.layer(*layers).properties(width=WIDTH, height=220),
    )
