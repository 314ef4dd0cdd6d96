"""The search: what it tries next, where it stops, and what it can prove."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kvlab.core.bracket import Next, Search, Seen, Stop, correlation_time, following, looks, share, state
from kvlab.core.errors import BadInput
from kvlab.core.quality import Interval
from kvlab.core.statistics import wilson
from kvlab.core.sweep import State

Told = Callable[[float], State | None]


def run(search: Search, told: Told, throughput: Callable[[float], float]) -> tuple[list[Seen], Stop]:
    """The whole search on a server of which everything is known."""
    found: dict[float, Seen] = {}
    for _ in range(200):
        step = following(search, list(found.values()))
        if isinstance(step, Stop):
            return sorted(found.values()), step
        found[step.load] = Seen(step.load, step.look + 1, told(step.load), throughput(step.load))
    raise AssertionError("the search does not end")


def at(limit: float) -> Told:
    return lambda load: "meets" if load <= limit else "fails"


@settings(max_examples=60)
@given(st.integers(1, 200), st.sampled_from([0.02, 0.1, 0.3]))
def test_the_bracket_holds_the_limit_and_is_as_narrow_as_asked(limit: int, precision: float) -> None:
    search = Search(over="concurrency", precision=precision, most_points=40)
    seen, stop = run(search, at(limit), lambda load: min(load, 50.0))
    meets = max(one.load for one in seen if one.state == "meets")
    above = [one.load for one in seen if one.state == "fails"]
    if stop.why == "flat":  # throughput stopped to rise long before the objective failed
        assert limit >= 100
        return
    assert stop.why == "bracketed"
    assert meets <= limit < min(above)
    assert min(above) - meets <= max(1, precision * meets)


@settings(max_examples=60)
@given(st.floats(1, 200), st.sampled_from([0.02, 0.1, 0.3]))
def test_a_rate_is_bracketed_as_narrowly(limit: float, precision: float) -> None:
    search = Search(over="rate", precision=precision, most_points=40)
    seen, stop = run(search, at(limit), lambda load: load)
    meets, fails = max(one.load for one in seen if one.load <= limit), min(one.load for one in seen if one.load > limit)
    assert stop.why == "bracketed"
    assert fails / meets <= 1 + precision


def test_loads_double_until_the_objective_fails_then_halve_the_gap() -> None:
    seen: list[Seen] = []
    search = Search(over="concurrency", precision=0.01)
    while isinstance(step := following(search, seen), Next):
        seen.append(Seen(step.load, 1, "meets" if step.load <= 11 else "fails", min(step.load, 8.0)))
    assert [one.load for one in seen] == [1, 2, 4, 8, 16, 12, 10, 11]


def test_it_abstains_where_the_lowest_fails_and_where_the_highest_meets() -> None:
    assert run(Search(over="rate", low=2), at(1), lambda load: load)[1] == Stop("lowest_fails")
    seen, stop = run(Search(over="rate", high=100), at(1e9), lambda load: load)
    assert stop == Stop("highest_meets")
    assert seen[-1].load == 100


def test_doubling_ends_when_throughput_has_not_risen_twice() -> None:
    seen, stop = run(Search(over="concurrency"), at(1e9), lambda load: min(load, 8.0))
    assert stop == Stop("flat")
    assert [one.load for one in seen] == [1, 2, 4, 8, 16, 32]


def test_without_objectives_the_gaps_beside_the_bend_are_filled() -> None:
    seen, stop = run(Search(over="concurrency"), lambda load: None, lambda load: min(load, 8.0))
    assert stop == Stop("flat")
    assert [one.load for one in seen] == [1, 2, 4, 6, 8, 12, 16, 32]


def test_an_unsettled_load_is_looked_at_again_up_to_the_bound() -> None:
    search = Search(over="rate", requests=100, most_requests=400)
    steps = []
    seen: list[Seen] = []
    for rounds in range(3):
        step = following(search, seen)
        assert isinstance(step, Next)
        steps.append(step)
        seen = [Seen(1.0, rounds + 1, "unclear", 1.0)]
    assert steps == [Next(1.0, 0, 100), Next(1.0, 1, 100), Next(1.0, 2, 200)]
    step = following(search, seen)
    assert isinstance(step, Next)
    assert step.load == 2


def test_below_an_unsettled_load_the_search_goes_on() -> None:
    search = Search(over="concurrency", requests=100, most_requests=100)
    told: Told = lambda load: "meets" if load <= 10 else "unclear" if load < 30 else "fails"  # noqa: E731
    seen, stop = run(search, told, lambda load: load)
    assert stop == Stop("bracketed")
    assert max(one.load for one in seen if one.state == "meets") == 10


def test_a_list_of_loads_is_all_that_is_tried() -> None:
    seen, stop = run(Search(over="rate", points=(8, 1, 2)), at(1), lambda load: load)
    assert stop == Stop("listed")
    assert [one.load for one in seen] == [1, 2, 8]


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.sampled_from(["rate", "concurrency"]))
def test_whatever_a_server_does_the_search_ends(seed: int, over: str) -> None:
    source = random.Random(seed)
    told: Told = lambda load: source.choice(["meets", "fails", "unclear"])  # noqa: E731
    seen, _ = run(Search(over=over, most_points=9), told, lambda load: source.random())  # type: ignore[arg-type]
    assert 1 <= len(seen) <= 9


def test_the_looks_share_the_error() -> None:
    """Three looks at 1 - 0.05/3 each: scipy's interval at that confidence."""
    search = Search(over="rate", requests=128, most_requests=512)
    assert looks(128, 512) == (128, 128, 256)
    expected = stats.binomtest(120, 128).proportion_ci(1 - 0.05 / 3, method="wilson")
    found = wilson(120, 128, search.level)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.integers(2, 1000), st.integers(0, 4000))
def test_looks_add_up_to_the_most(requests: int, more: int) -> None:
    assert sum(looks(requests, requests + more)) == requests + more


def test_a_point_is_judged_only_by_an_interval_on_one_side_of_the_target() -> None:
    assert state(Interval(0.97, 0.95, 0.99), 0.95) == "meets"
    assert state(Interval(0.97, 0.94, 0.99), 0.95) == "unclear"
    assert state(Interval(0.9, 0.85, 0.949), 0.95) == "fails"


def test_what_cannot_be_proved_is_refused_before_the_first_request() -> None:
    # Of 19 z^2 requests none may miss: 109 in three looks at 98.33 %, where z is 2.394, and 73 in one at 95 %.
    with pytest.raises(BadInput, match=r"raise --most-prompts to about 1(09|10),"):
        Search(over="rate", requests=40, most_requests=40).provable()
    Search(over="rate", requests=40, most_requests=109).provable()
    Search(over="rate", requests=73, most_requests=73).provable()
    # 99 z^2 in four looks at 98.75 %, where z is 2.498.
    Search(over="rate", target=0.99, most_requests=618).provable()
    with pytest.raises(BadInput, match="cannot show that 99 %"):
        Search(over="rate", target=0.99, most_requests=617).provable()
    Search(over="rate").provable()


@pytest.mark.parametrize(
    "changes",
    [
        {"low": 0},
        {"low": 3, "high": 2},
        {"low": 1.5},
        {"points": (1, 1)},
        {"target": 1},
        {"requests": 1},
        {"most_requests": 4},
        {"precision": 0},
        {"points": (float("nan"),)},
    ],
)
def test_impossible_searches_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Search(over="concurrency", **changes)  # type: ignore[arg-type]


def test_correlated_requests_are_worth_fewer() -> None:
    """A two-state chain whose neighbours correlate with r = 0.8: by theory n requests are worth n / 9.

    The variance of the share over many simulated runs is that of so many independent ones.
    """
    rng, n, stay = np.random.default_rng(1), 400, 0.9
    runs = []
    for _ in range(300):
        flips = np.concatenate([[rng.random() < 0.5], rng.random(n - 1) > stay])
        runs.append((np.cumsum(flips) % 2).astype(bool))
    shares = np.array([run.mean() for run in runs])
    worth = np.median([share([run.tolist()], [run.tolist()], 0.95)[1] for run in runs])
    assert 0.25 / shares.var() == pytest.approx(n / 9, rel=0.25)
    assert worth == pytest.approx(n / 9, rel=0.25)
    assert correlation_time([[True] * 50]) == 1.0


def test_near_misses_that_come_in_bursts_widen_a_share_of_which_none_missed() -> None:
    met, bursts, lone = [[True] * 100], [([False] * 10 + [True] * 10) * 5], [([False] * 3 + [True]) * 25]
    assert share(met, [[False] * 100], 0.95)[1] == 100
    assert share(met, lone, 0.95)[1] == 100
    assert share(met, bursts, 0.95)[1] < 20
