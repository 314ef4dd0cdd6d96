"""Whether the cache itself holds requests back, for verdicts that need it not to."""

from __future__ import annotations

from kvlab.core.diagnosis import Case, Condition, all_hold, any_holds
from kvlab.diagnoses._gauges import full, preempts, waits


def no_pressure(case: Case) -> Condition:
    """No pool is full with a queue before it, and nothing is preempted."""
    ways = [(waits(case, pool), full(case, pool)) for pool in case.pools]
    thrown = preempts(case)
    if thrown.holds:
        return thrown.denied()
    short = any_holds(ways)
    if short is None:
        missing = next(one.missing for way in ways if all_hold(way) is None for one in way if one.holds is None)
        return Condition(text="whether the cache is full", holds=None, missing=missing)
    at = next((way for way in ways if all_hold(way) is short), ways[0])
    deciding = next(one for one in at if short or one.holds is False)
    return Condition(text=deciding.text, holds=not short, evidence=deciding.evidence)


def no_queue(case: Case) -> Condition:
    """Nothing waits before any pool."""
    found = [waits(case, pool) for pool in case.pools]
    worst = next((one for one in found if one.holds), None) or next((one for one in found if one.holds is None), None)
    return (worst or found[0]).denied()
