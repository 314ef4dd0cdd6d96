"""A sweep on a terminal: the verdict, the points, and what tokens cost."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from kvlab.core.sweep import Estimate, Over, Sweep, SweepPoint
from kvlab.core.units import seconds
from kvlab.reporting import words
from kvlab.reporting.terminal_parts import bullets, facts, heading, left, note, right, table, verdict_line

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
    told = f"; objectives {goal} for {value.target:.0%} of the requests" if goal else "; no objectives"
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
    share = one.goodput.share
    return f"{share.value:.1%} ({share.low:.1%} to {share.high:.1%})"


def _points(value: Sweep) -> RenderableType:
    columns = [right(unit(value.over)), right("requests"), right("failed")]
    if value.objectives:
        columns += [right("goodput", wraps=True), left("verdict", wraps=False)]
    columns += [right("TTFT p50"), right("TTFT p99"), right("TPOT p50"), right("TPOT p99"), right("e2e p50")]
    columns += [right("output tok/s")]
    columns += [right("$/M out")] if value.cost is not None else []
    body = table(*columns, right("cache peak"), right("waiting"))
    for one in value.points:
        cells = [f"{one.load:,g}", f"{one.requests:,}", f"{one.failed:,}"]
        if value.objectives:
            cells += [goodput(one), "" if one.goodput is None else one.goodput.state]
        for spread, tails in ((one.ttft, True), (one.tpot, True), (one.e2e, False)):
            cells.append(words.ABSENT if spread is None else seconds(spread.median.value))
            if tails:
                cells.append(words.ABSENT if spread is None else seconds(spread.p99.value))
        cells.append(_bare(one.output_throughput))
        cells += [_bare(one.per_million_output, ".3g")] if value.cost is not None else []
        cells += [words.share(one.pool.peak_kv_used), words.number(one.pool.peak_waiting)]
        body.add_row(*map(Text, cells))
    return body


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
            ("the plan's pool", f"{safe.plan.share:.0%} taken, {safe.plan.requests:,.1f} such requests at most")
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
