"""The points of a sweep -> which load is safe, what it costs, and the verdict.

The operating point, at which tokens are priced, is the safe load; without objectives it is the measured load nearest
the knee. Where the sweep abstains there is none: each point still has its own price.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

from kvlab.core.bracket import RISES, Stop
from kvlab.core.cost import ways
from kvlab.core.knee import Curve, knee
from kvlab.core.plan import Plan
from kvlab.core.points import Terms
from kvlab.core.sweep import Cost, Estimate, Knee, Over, PlanRoom, Safe, SweepPoint, SweepVerdict

FULL = 0.9
"""Share of the pool from which the cache is what limits."""


class Judged(NamedTuple):
    """What follows from the points."""

    safe: Safe
    knee: Knee
    cost: Cost | None
    verdict: SweepVerdict


class Priced(NamedTuple):
    """What the answer takes beside the points: a plan and the weight of an output token may be none."""

    plan: Plan | None = None
    request_tokens: int = 0
    output_weight: float = 1.0
    seed: int = 0


def judge(points: Sequence[SweepPoint], stop: Stop, terms: Terms, beside: Priced) -> Judged:
    """Everything that is said of a sweep. `points` in the order of their load."""
    over = terms.search.over
    bend = knee(over, [Curve(one.load, _rates(one)) for one in points], beside.seed)
    safe = _safe(points, stop, terms, beside)
    at, why = _operating(points, safe, bend)
    cost = None
    if terms.price_per_hour is not None:
        parts = next((one.slices for one in points if one.load == at), ())
        cost = Cost(
            price_per_hour=terms.price_per_hour,
            at=at,
            ways=ways(terms.price_per_hour, parts, beside.output_weight) if at is not None else (),
            because=why,
        )
    return Judged(safe, bend, cost, _verdict(points, terms, safe, bend))


def loads(over: Over, load: float) -> str:
    """A load in words: "12 requests in flight", "3.5 requests a second"."""
    many = "request" if load == 1 else "requests"
    return f"{load:,g} {many} {'in flight' if over == 'concurrency' else 'a second'}"


def _rates(one: SweepPoint) -> tuple[float, ...]:
    return tuple(part.output_tokens / part.seconds for part in one.slices)


def _safe(points: Sequence[SweepPoint], stop: Stop, terms: Terms, beside: Priced) -> Safe:
    states = {one.load: one.goodput.state for one in points if one.goodput is not None}
    fails = min((load for load, found in states.items() if found == "fails"), default=None)
    below = [load for load in states if fails is None or load < fails]
    meets = max((load for load in below if states[load] == "meets"), default=None)
    unclear = tuple(load for load in below if states[load] == "unclear" and load > (meets or 0))
    at = next((one for one in points if one.load == meets), None)
    bracketed = meets is not None and fails is not None
    return Safe(
        code="no_objectives" if not states else "bracketed" if bracketed else "not_bracketed",
        meets_at=meets,
        fails_at=fails,
        unclear_at=unclear,
        in_flight=None if at is None else at.in_flight,
        request_rate=None if at is None else _rate(terms.search.over, at),
        plan=_room(beside, at),
        because=_why(points, stop, terms, (meets, fails)) if states else "no objective was given (--slo ttft:500)",
    )


def _why(points: Sequence[SweepPoint], stop: Stop, terms: Terms, ends: tuple[float | None, float | None]) -> str:
    over, (meets, fails) = terms.search.over, ends
    if meets is not None and fails is not None:
        return f"it meets at {loads(over, meets)} and fails at {fails:,g}"
    if fails is not None and fails == points[0].load:
        return f"the lowest load, {loads(over, fails)}, already fails; go below with --from, or change the objectives"
    if fails is not None:
        return f"no load below {fails:,g} was shown to meet; send more with --most-prompts"
    top = loads(over, points[-1].load)
    if meets is None:
        return f"up to {top}, no load was shown to meet or to fail; send more with --most-prompts"
    if stop.why == "flat":
        return f"throughput no longer rises and {top}, the most that was tried, does not fail: more only waits longer"
    return f"{top}, the most that was tried, does not fail; go on with --to"


def _rate(over: Over, at: SweepPoint) -> Estimate | None:
    """Requests a second at a load: what is offered, or by Little's law in flight / mean time of a request."""
    if over == "rate":
        return Estimate(at.load, at.load, at.load)
    if at.e2e is None or at.e2e.mean.value <= 0:
        return None
    mean = at.e2e.mean
    return Estimate(
        at.load / mean.value, at.load / mean.high if mean.high else None, at.load / mean.low if mean.low else None
    )


def _room(beside: Priced, at: SweepPoint | None) -> PlanRoom | None:
    plan = beside.plan
    if plan is None or plan.capacity is None or at is None or at.in_flight is None or not beside.request_tokens:
        return None
    tokens = plan.capacity.tokens
    return PlanRoom(
        max_concurrency=plan.capacity.max_concurrency,
        context=plan.kv.context,
        pool_tokens=tokens,
        request_tokens=beside.request_tokens,
        requests=tokens / beside.request_tokens,
        share=at.in_flight.value * beside.request_tokens / tokens,
    )


def _operating(points: Sequence[SweepPoint], safe: Safe, bend: Knee) -> tuple[float | None, str]:
    if safe.code == "no_objectives":
        if bend.load is None:
            return None, "no objective was given and no knee was found, so there is no operating point"
        near = bend.load.value
        return min((one.load for one in points), key=lambda load: abs(log(load / near))), "the load nearest the knee"
    if safe.meets_at is None:
        return None, "no load was shown to meet the objectives, so there is no operating point"
    if safe.fails_at is None:
        return safe.meets_at, "the highest load that was shown to meet the objectives; a higher one may, too"
    return safe.meets_at, "the highest load that meets the objectives"


def _verdict(points: Sequence[SweepPoint], terms: Terms, safe: Safe, bend: Knee) -> SweepVerdict:
    over = terms.search.over
    because = [*_of_the_ends(points, safe), _of_the_knee(over, bend)]
    if safe.plan is not None:
        because.append(_of_the_plan(safe.plan, points, safe))
    because += _pressure(points, over)
    because += _order(points, safe)
    because += [f"at {one.load:,g}: {doubt}" for one in points for doubt in one.doubts]
    asked = " ".join(one.text for one in terms.objectives)
    if safe.code == "bracketed" and safe.meets_at is not None:
        text = (
            f"{loads(over, safe.meets_at)} meet {asked} for {terms.search.target * 100:g} % of the requests;"
            f" {safe.fails_at:,g} do not{_between(safe)}."
        )
        return SweepVerdict(code="bracketed", text=text, because=tuple(because))
    if safe.code == "not_bracketed":
        return SweepVerdict(code="not_bracketed", text=f"{asked}: {safe.because}.", because=tuple(because))
    if bend.load is None:
        return SweepVerdict(code="no_knee", text=f"Throughput shows none: {bend.because}.", because=tuple(because))
    text = f"Throughput stops to rise at {bend.load.value:,.3g} {loads(over, 2).partition(' ')[2]}."
    return SweepVerdict(code="knee_found", text=text, because=tuple(because))


def _between(safe: Safe) -> str:
    """Loads between the ends that more requests would have to settle."""
    if not safe.unclear_at:
        return ""
    return f", and {', '.join(f'{load:,g}' for load in safe.unclear_at)} between them stayed unclear"


def _of_the_ends(points: Sequence[SweepPoint], safe: Safe) -> list[str]:
    found = []
    for one in points:
        if one.goodput is None or one.load not in (safe.meets_at, safe.fails_at, *safe.unclear_at):
            continue
        share = one.goodput.share
        found.append(
            f"at {one.load:,g} {one.goodput.met:,} of {one.goodput.judged:,} requests met the objectives"
            f" ({share.value * 100:.1f} %, interval {share.low * 100:.1f} to {share.high * 100:.1f}):"
            f" {one.goodput.state}"
        )
    return found


def _of_the_knee(over: Over, bend: Knee) -> str:
    if bend.load is None:
        return f"no knee: {bend.because}"
    low, high = bend.load.low or bend.load.value, bend.load.high or bend.load.value
    return f"the knee lies at {bend.load.value:,.3g} ({low:,.3g} to {high:,.3g}): {bend.because}"


def _of_the_plan(room: PlanRoom, points: Sequence[SweepPoint], safe: Safe) -> str:
    at = next(one for one in points if one.load == safe.meets_at)
    held = at.in_flight.value if at.in_flight else 0.0
    context = "" if room.context is None else f" of {room.context:,} tokens"
    text = (
        f"the plan holds {room.max_concurrency:,.2f} requests{context} at once, {room.requests:,.1f} of the"
        f" {room.request_tokens:,} tokens sent here; at the safe load {held:,.1f} are in flight,"
        f" {room.share * 100:.0f} % of the pool"
    )
    return text + (": the cache is what limits" if room.share >= FULL else ": the cache is not what limits")


def _pressure(points: Sequence[SweepPoint], over: Over) -> list[str]:
    """From which load the engine says that requests waited, or were preempted."""
    found = []
    waiting = next((one for one in points if (one.pool.peak_waiting or 0) > 0), None)
    if waiting is not None:
        found.append(
            f"requests wait in the engine from {loads(over, waiting.load)} on (up to {waiting.pool.peak_waiting:,.0f})"
        )
    preempted = next((one for one in points if (one.pool.preemptions or 0) > 0), None)
    if preempted is not None:
        found.append(f"the engine preempts from {loads(over, preempted.load)} on: its cache runs over")
    best = max((one.output_throughput.value for one in points if one.output_throughput is not None), default=0.0)
    last = points[-1].output_throughput if points else None
    if last is not None and last.value * RISES < best and (last.high or last.value) < best:
        found.append(
            f"throughput falls beyond its best: {last.value:,.4g} tokens a second at the end, {best:,.4g} at most"
        )
    return found


def _order(points: Sequence[SweepPoint], safe: Safe) -> list[str]:
    """A load above the first failure that met: the machine was not the same all the time."""
    odd = [
        one.load
        for one in points
        if one.goodput is not None
        and one.goodput.state == "meets"
        and safe.fails_at is not None
        and one.load > safe.fails_at
    ]
    if not odd:
        return []
    return [
        f"{', '.join(f'{load:,g}' for load in odd)} met although {safe.fails_at:,g} failed: the server was not steady"
    ]
