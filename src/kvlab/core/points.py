"""Rows of a load's rounds -> one point of the curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from kvlab.core.bracket import Search, Seen, share, state
from kvlab.core.cost import per_million
from kvlab.core.measure import SUSPECT_HITS, PoolUse, RequestRow
from kvlab.core.objectives import Objective, goodput, meets
from kvlab.core.statistics import Statistic, bootstrap_interval, reduce
from kvlab.core.steady import slices, throughput
from kvlab.core.sweep import Estimate, Goodput, Over, Spread, SweepPoint

NEAR = 0.5
"""A request that took more than this share of a limit came near it.

On an M/M/1 queue where 92 % meet the limit, 3 of 80 searches call the load safe with 0.5, and 26 of 80 with 0.75; the
price is more requests."""
_TURNS = 3
"""An open loop's steady time should be this many requests long, or its first ones are most of it."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One look at one load, as it is kept."""

    load: float
    look: int
    seed: int
    duration: float
    client_limit: str | None = None
    """How the client held the load back, or blurred its times."""
    rows: tuple[RequestRow, ...]
    pool: PoolUse
    model: str
    engine: str | None
    unchecked: bool = False
    """Whether whoever answered was believed without a look at the certificate."""


class Terms(NamedTuple):
    """By what points are judged."""

    search: Search
    objectives: tuple[Objective, ...]
    price_per_hour: float | None = None


def point(rounds: Sequence[Round], terms: Terms) -> SweepPoint:
    """What the rounds at one load say together."""
    load, over = rounds[0].load, terms.search.over
    rows = [row for one in rounds for row in one.rows]
    good = [row for row in rows if row.error is None]
    concurrency = int(load) if over == "concurrency" else None
    parts = tuple(part for one in rounds for part in slices(one.rows, concurrency))
    output = throughput(parts, lambda part: part.output_tokens)
    e2e = _spread([row.e2e for row in good], rounds[0].seed)
    found = _goodput(rounds, terms) if terms.objectives else None
    doubts = _doubts(rounds, good)
    if over == "rate" and (found is None or found.state != "fails"):
        doubts += _short(rounds, good)
    return SweepPoint(
        load=load,
        rounds=len(rounds),
        requests=len(rows),
        failed=len(rows) - len(good),
        goodput=found,
        ttft=_spread([row.ttft for row in good], rounds[0].seed),
        tpot=_spread([row.tpot for row in good], rounds[0].seed),
        e2e=e2e,
        request_throughput=throughput(parts, lambda part: part.completed),
        output_throughput=output,
        total_throughput=throughput(parts, lambda part: part.weighed(1.0)),
        in_flight=_in_flight(over, load, e2e),
        cached_share=_cached(good),
        pool=_pool([one.pool for one in rounds]),
        slices=parts,
        per_million_output=None if terms.price_per_hour is None else per_million(terms.price_per_hour, output),
        doubts=tuple(doubts),
    )


def seen(found: SweepPoint) -> Seen:
    """The point as the search sees it."""
    output = found.output_throughput
    state = None if found.goodput is None else found.goodput.state
    return Seen(found.load, found.rounds, state, None if output is None else output.value)


def _goodput(rounds: Sequence[Round], terms: Terms) -> Goodput:
    judged = [_after_the_rise(one, terms.search.over) for one in rounds]
    met = [[meets(row, terms.objectives) for row in rows] for rows in judged]
    half = [Objective(one.metric, one.limit_ms * NEAR) for one in terms.objectives]
    near = [[not meets(row, half) for row in rows] for rows in judged]
    found, worth = share(met, near, terms.search.level)
    seconds = sum(one.duration for one in rounds)
    return Goodput(
        judged=sum(map(len, met)),
        met=sum(map(sum, met)),
        share=found,
        independent=worth,
        rate=goodput([row for one in rounds for row in one.rows], seconds, terms.objectives) if seconds > 0 else None,
        state=state(found, terms.search.target),
    )


def _after_the_rise(one: Round, over: Over) -> list[RequestRow]:
    """The requests that did not find the server emptier, or fuller, than the load makes it.

    Closed loop: not the first of each place, which all arrive at once. Open loop: not those that came before the first
    answer was complete. All of them where that leaves none.
    """
    rows = sorted(one.rows, key=lambda row: row.scheduled)
    if over == "concurrency":
        return rows[int(one.load) :] or rows
    first = min((row.done for row in rows if row.error is None and row.done is not None), default=0.0)
    return [row for row in rows if row.scheduled >= first] or rows


def _spread(values: Sequence[float | None], seed: int) -> Spread | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(
        mean=_estimate(known, "mean", seed), median=_estimate(known, "median", seed), p99=_estimate(known, "p99", seed)
    )


def _estimate(values: Sequence[float], statistic: Statistic, seed: int) -> Estimate:
    found = bootstrap_interval(values, statistic, seed=seed)
    if found is not None:
        return Estimate(found.value, found.low, found.high)
    value = reduce(values, statistic)
    assert value is not None
    return Estimate(value)


def _in_flight(over: Over, load: float, e2e: Spread | None) -> Estimate | None:
    """Requests in the system. Of a rate: rate x mean time in it (Little, Operations Research 9(3), 1961)."""
    if over == "concurrency":
        return Estimate(load, load, load)
    if e2e is None:
        return None
    mean = e2e.mean
    return Estimate(
        load * mean.value,
        None if mean.low is None else load * mean.low,
        None if mean.high is None else load * mean.high,
    )


def _cached(rows: Sequence[RequestRow]) -> float | None:
    told = [row for row in rows if row.cached_tokens is not None and row.prompt_tokens]
    if not told:
        return None
    return sum(row.cached_tokens or 0 for row in told) / sum(row.prompt_tokens or 0 for row in told)


def _pool(pools: Sequence[PoolUse]) -> PoolUse:
    """Peaks are the largest, preemptions add up; a word that no round saw stays unseen."""

    def most(values: list[float | None]) -> float | None:
        return max((value for value in values if value is not None), default=None)

    preempted = [pool.preemptions for pool in pools if pool.preemptions is not None]
    return PoolUse(
        peak_kv_used=most([pool.peak_kv_used for pool in pools]),
        peak_running=most([pool.peak_running for pool in pools]),
        peak_waiting=most([pool.peak_waiting for pool in pools]),
        preemptions=sum(preempted) if preempted else None,
        prefix_hit_rate=most([pool.prefix_hit_rate for pool in pools]),
        samples=sum(pool.samples for pool in pools),
    )


def _doubts(rounds: Sequence[Round], good: Sequence[RequestRow]) -> list[str]:
    found = []
    cached = _cached(good)
    if cached is not None and cached > SUSPECT_HITS:
        found.append(
            f"{cached * 100:.0f} % of the prompt tokens came from the prefix cache although none was sent twice here:"
            " the server knew them before; give another --seed"
        )
    errors = [row.error for one in rounds for row in one.rows if row.error is not None]
    if errors:
        found.append(f"{len(errors)} requests failed, the first: {errors[0]}")
    found += dict.fromkeys(f"the client was the limit: {one.client_limit}" for one in rounds if one.client_limit)
    return found


def _short(rounds: Sequence[Round], good: Sequence[RequestRow]) -> list[str]:
    """An open loop that was over before its requests had filled the server."""
    times = [row.e2e for row in good if row.e2e is not None]
    last = min(max(row.scheduled for row in one.rows) for one in rounds)
    if not times or last >= _TURNS * sum(times) / len(times):
        return []
    return [
        f"requests came for {last:.3g} s, less than {_TURNS} times what a request takes: the server was hardly ever as"
        " full as this rate makes it; give more --num-prompts"
    ]
