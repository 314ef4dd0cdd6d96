"""Queues whose capacity and whose waiting times are known from theory: the answers must lie there."""

from __future__ import annotations

import math
import random

import msgspec
import pytest
from queues import TOKENS, Queue, look, sweep

from kvlab.core.bracket import Next, Search, share
from kvlab.core.knee import Curve, knee
from kvlab.core.objectives import Objective, meets
from kvlab.core.points import Terms, point
from kvlab.core.statistics import LEVEL, wilson
from kvlab.core.sweep import Knee, SweepPoint

MU = 10.0
"""Requests a second of one place."""


def exponential(source: random.Random) -> float:
    return source.expovariate(MU)


def constant(source: random.Random) -> float:
    return 1 / MU


def bend(over: str, points: list[SweepPoint]) -> Knee:
    curves = [Curve(one.load, tuple(part.output_tokens / part.seconds for part in one.slices)) for one in points]
    return knee(over, curves)  # type: ignore[arg-type]


def bracket(points: list[SweepPoint]) -> tuple[float, float]:
    states = {one.load: one.goodput.state for one in points if one.goodput}
    fails = min(load for load, found in states.items() if found == "fails")
    return max(load for load, found in states.items() if found == "meets" and load < fails), fails


def test_the_safe_rate_of_a_queue_with_random_service_lies_where_theory_says() -> None:
    """The time in an M/M/1 queue is exponential with mean 1 / (mu - rate) (any book on queues; Kleinrock I, 3.2).

    So 95 % of the requests take less than 1 s up to the rate mu - ln(20) = 7.00 a second.
    """
    limit = MU - math.log(20)
    for seed in range(2):
        points, stop = sweep(Queue(1, exponential), Search(over="rate"), (Objective("e2el", 1000),), seed)
        meets, fails = bracket(points)
        assert meets <= limit < fails
        assert stop.why == "bracketed"
        found = bend("rate", points)
        assert found.load is not None
        assert found.load.low is not None
        assert found.load.high is not None
        assert found.load.low <= MU <= found.load.high


def test_the_knee_of_constant_service_is_its_capacity() -> None:
    """M/D/1: what is offered is served up to one over the service time, 10 a second, which is 80 tokens a second."""
    points, _ = sweep(Queue(1, constant), Search(over="rate"), (Objective("ttft", 400),), seed=5)
    found = bend("rate", points)
    assert found.load is not None
    assert found.output_throughput is not None
    assert found.load.value == pytest.approx(MU, rel=0.08)
    assert found.load.low is not None
    assert found.load.low <= MU <= (found.load.high or 0)
    assert found.output_throughput.value == pytest.approx(MU * TOKENS, rel=0.05)


@pytest.mark.parametrize("places", [4, 8])
def test_the_knee_of_a_closed_loop_is_the_number_of_places(places: int) -> None:
    """N clients on c places of 0.1 s: throughput is min(N, c) x 10 a second, and beyond c each waits N / c turns.

    With 250 ms for the whole request 2 turns meet, 3 do not.
    """
    nearly = Queue(places, lambda source: (0.95 + 0.1 * source.random()) / MU)
    points, stop = sweep(nearly, Search(over="concurrency"), (Objective("e2el", 250),), seed=1)
    found = bend("concurrency", points)
    assert found.load is not None
    assert found.slope is not None
    assert found.load.low is not None
    assert found.load.high is not None
    assert found.load.low <= places <= found.load.high
    assert found.load.high < 1.2 * places
    assert found.slope.value == pytest.approx(1.0, abs=0.05)
    meets, fails = bracket(points)
    assert 2 * places <= meets < fails <= 3 * places
    assert stop.why == "bracketed"
    best = next(one for one in points if one.load == 2 * places)
    assert best.output_throughput is not None
    assert best.output_throughput.value == pytest.approx(places * MU * TOKENS, rel=0.02)
    assert best.total_throughput is not None
    assert best.total_throughput.value == pytest.approx(places * MU * (TOKENS + 10), rel=0.05)


def test_the_requests_in_flight_at_a_rate_are_those_of_theory() -> None:
    """An M/M/1 queue at half of its capacity holds one request on average: rho / (1 - rho)."""
    one = measured(Queue(1, exponential), "rate", MU / 2, 4000)
    assert one.in_flight is not None
    assert one.in_flight.value == pytest.approx(1.0, rel=0.12)
    assert one.e2e is not None
    assert one.e2e.mean.value == pytest.approx(1 / (MU - MU / 2), rel=0.12)


def test_a_share_near_the_limit_has_the_interval_that_its_runs_have() -> None:
    """At 7.0 a second 95 % meet 1 s. Intervals hold that in 95 % of the runs, though neighbours correlate.

    Wilson's interval of independent requests holds it in a quarter of them.
    """
    limit, half = (Objective("e2el", 1000),), (Objective("e2el", 500),)
    held, plain = 0, 0
    for seed in range(100):
        rows = Queue(1, exponential).open(MU - math.log(20), 400, seed)
        met, near = [meets(row, limit) for row in rows], [not meets(row, half) for row in rows]
        found, _ = share([met], [near], LEVEL)
        held += found.low <= 0.95 <= found.high
        naive = wilson(sum(met), len(met))
        plain += naive.low <= 0.95 <= naive.high
    assert held >= 90
    assert plain <= 50


def test_prompts_that_the_server_did_not_count_are_not_zero() -> None:
    """One answer without usage: what was read is not known, what was written is."""
    search = Search(over="concurrency", requests=40, most_requests=40)
    whole = look(Queue(4, constant), search, Next(4, 0, 40), 0)
    rows = (msgspec.structs.replace(whole.rows[20], prompt_tokens=None), *whole.rows[:20], *whole.rows[21:])
    one = point([msgspec.structs.replace(whole, rows=rows)], Terms(search, ()))
    assert one.output_throughput is not None
    assert one.total_throughput is None
    assert {part.input_tokens for part in one.slices} == {None}


def measured(queue: Queue, over: str, load: float, count: int) -> SweepPoint:
    search = Search(over=over, requests=count, most_requests=count)  # type: ignore[arg-type]
    return point([look(queue, search, Next(load, 0, count), 0)], Terms(search, ()))
