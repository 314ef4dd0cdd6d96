"""A sweep on a terminal: the verdict, the points, and what tokens cost."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.text import Text

from kvlab.core.sweep import Estimate, Over, Spread, Sweep, SweepPoint
from kvlab.core.units import seconds
from kvlab.reporting import words
from kvlab.reporting.terminal_parts import (
    FirstThatFits,
    Sheet,
    bullets,
    facts,
    heading,
    left,
    note,
    right,
    table,
    verdict_line,
)

HEADS = {
    "bracketed": "Safe load",
    "not_bracketed": "Not bracketed",
    "knee_found": "Knee",
    "no_knee": "No knee",
}
_BAR = 24
"""Characters of the longest bar."""


def sweep(value: Sweep) -> RenderableType:
    """The answer first; then the curve, and the ways of laying the price on tokens."""
    verdict = value.verdict
    parts: list[RenderableType] = [
        verdict_line("", HEADS[verdict.code], words.plain(verdict.text)),
        note(asked(value)),
        bullets(map(words.plain, verdict.because)),
        heading("Points (measured)"),
        _points(value),
        *_curves(value),
    ]
    safe = value.safe
    if safe.meets_at is not None:
        parts += [heading("At the safe load"), facts(_safe(value))]
    if value.cost is not None:
        parts += [heading(f"Cost at {value.cost.price_per_hour:,.2f} dollars an hour"), *_cost(value)]
    return Group(*parts)


def unit(over: Over) -> str:
    """What a load counts."""
    return "in flight" if over == "concurrency" else "requests/s"


def asked(value: Sweep) -> str:
    """What was sent to whom, and what was asked of it."""
    load = value.load
    loop = "closed loop" if value.over == "concurrency" else "open loop, Poisson"
    goal = " ".join(one.text for one in value.objectives)
    told = f"; objectives {goal} for {value.target * 100:g} % of the requests" if goal else "; no objectives"
    engine = f" ({words.plain(value.engine)})" if value.engine else ""
    return (
        f"{words.plain(value.source)}{engine}, {loop}, {load.input_tokens:,} tokens in, {load.output_tokens:,} out,"
        f" fresh prompts at each load{told}"
    )


def span(estimate: Estimate | None, form: str = ",.4g") -> str:
    """A value with its interval behind it, "79.5 (71.2 to 88.0)"."""
    if estimate is None:
        return words.ABSENT
    text = f"{estimate.value:{form}}"
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return text
    return f"{text} ({estimate.low:{form}} to {estimate.high:{form}})"


def times(estimate: Estimate | None) -> str:
    """A time with its interval."""
    if estimate is None:
        return words.ABSENT
    if estimate.low is None or estimate.high is None:
        return seconds(estimate.value)
    return f"{seconds(estimate.value)} ({seconds(estimate.low)} to {seconds(estimate.high)})"


def dollars(estimate: Estimate | None) -> str:
    """Dollars with their interval, to the cent, or to three digits where a cent is much."""
    if estimate is None:
        return words.ABSENT
    return span(estimate, ",.2f" if estimate.value >= 1 else ".3g")


def goodput(one: SweepPoint) -> str:
    """The share that met with its interval, and what follows."""
    if one.goodput is None:
        return ""
    return words.share_interval(one.goodput.share)


def _points(value: Sweep) -> RenderableType:
    """The points, with as many of their numbers as the screen holds; all are in the document and on the page."""
    return FirstThatFits(*((_sheet(value, most), ()) for most in (3, 2, 1)))


def _sheet(value: Sweep, most: int) -> Sheet:
    """The columns whose rank is at most `most`."""
    columns: list[tuple[int, str, Callable[[SweepPoint], str]]] = [
        (1, unit(value.over), lambda one: f"{one.load:,g}"),
        (2, "requests", lambda one: f"{one.requests:,}"),
        (2, "failed", lambda one: f"{one.failed:,}"),
        (1, "met", lambda one: words.share(one.goodput.share.value if one.goodput else None)),
        (3, "interval", lambda one: goodput(one).partition("(")[2].rstrip(")")),
        (1, "verdict", lambda one: one.goodput.state if one.goodput else ""),
        (1, "TTFT p50", lambda one: _time(one.ttft, "median")),
        (2, "TTFT p99", lambda one: _time(one.ttft, "p99")),
        (1, "TPOT p50", lambda one: _time(one.tpot, "median")),
        (3, "TPOT p99", lambda one: _time(one.tpot, "p99")),
        (3, "e2e p50", lambda one: _time(one.e2e, "median")),
        (1, "out tok/s", lambda one: _bare(one.output_throughput)),
        (2, "$/M out", lambda one: _bare(one.per_million_output, ".3g")),
        (3, "cache peak", lambda one: words.share(one.pool.peak_kv_used)),
        (3, "waiting", lambda one: words.number(one.pool.peak_waiting)),
    ]  # fmt: skip
    without = set() if value.objectives else {"met", "interval", "verdict"}
    without |= set() if value.cost is not None else {"$/M out"}
    kept = [(title, cell) for rank, title, cell in columns if rank <= most and title not in without]
    sheet = table(*(right(title) for title, _ in kept))
    for one in value.points:
        sheet.add_row(*(Text(cell(one)) for _, cell in kept))
    return sheet


def _time(spread: Spread | None, statistic: str) -> str:
    return words.ABSENT if spread is None else seconds(getattr(spread, statistic).value)


def _bare(estimate: Estimate | None, form: str = ",.4g") -> str:
    """A value alone, for a column; its interval is in the document and on the page."""
    return words.ABSENT if estimate is None else f"{estimate.value:{form}}"


def _curves(value: Sweep) -> list[RenderableType]:
    """The curves, a bar for each load; beside throughput's stand the safe load and the knee."""
    rising = [(one.load, one.output_throughput.value) for one in value.points if one.output_throughput]
    first = [(one.load, one.ttft.median.value) for one in value.points if one.ttft]
    each = [(one.load, one.tpot.median.value) for one in value.points if one.tpot]
    met = [(one.load, one.goodput.share.value) for one in value.points if one.goodput]
    drawn: list[RenderableType] = []
    for title, curve, form in (
        ("Output tokens a second", rising, lambda y: f"{y:,.4g}"),
        ("Requests that met the objectives", met, words.share),
        ("Median time to first token", first, seconds),
        ("Median time per output token", each, seconds),
    ):
        most = max((y for _, y in curve), default=0.0)
        if most:
            marked = curve is rising
            rows = [
                (x, f"{'#' * round(_BAR * y / most)} {form(y)}{_marks(value, x) if marked else ''}") for x, y in curve
            ]
            drawn += [heading(title), facts((f"{x:,g}", text.strip()) for x, text in rows)]
    return drawn


def _marks(value: Sweep, load: float) -> str:
    """What is to be said of a load beside its bar."""
    found = []
    if load == value.safe.meets_at:
        found.append("safe")
    if load == value.safe.fails_at:
        found.append("fails")
    knee = value.knee.load
    if knee is not None and load == min((one.load for one in value.points if one.load >= knee.value), default=None):
        found.append(f"knee at {span(knee, ',.3g')}")
    return f"  {', '.join(found)}" if found else ""


def _safe(value: Sweep) -> list[tuple[str, str]]:
    safe = value.safe
    rows = [
        ("requests in flight", span(safe.in_flight)),
        ("requests a second", span(safe.request_rate)),
    ]
    if value.over == "rate":
        rows[0] = (rows[0][0], f"{rows[0][1]}, by Little's law")
    else:
        rows[1] = (rows[1][0], f"{rows[1][1]}, by Little's law")
    at = next(one for one in value.points if one.load == safe.meets_at)
    rows += [
        (name, times(spread.mean))
        for name, spread in (("mean TTFT", at.ttft), ("mean TPOT", at.tpot), ("mean e2e", at.e2e))
        if spread is not None
    ]
    if safe.plan is not None:
        rows.append(
            ("the plan's pool", f"{safe.plan.share * 100:.0f} % taken, {safe.plan.requests:,.1f} such requests at most")
        )
    return rows


def _cost(value: Sweep) -> list[RenderableType]:
    cost = value.cost
    assert cost is not None
    if cost.at is None:
        return [Text(words.plain(cost.because))]
    body = table(left("how the price is laid on tokens"), right("$/M output"), right("$/M input"))
    for way in cost.ways:
        body.add_row(
            Text(f"{way.way}: {way.text}"), Text(dollars(way.per_million_output)), Text(dollars(way.per_million_input))
        )
    return [Text(f"at {cost.at:,g} {unit(value.over)}: {words.plain(cost.because)}"), body]
