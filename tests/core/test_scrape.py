"""Percentiles of histograms against Prometheus' own expectations, and what two scrapes tell together."""

from __future__ import annotations

import math
from bisect import bisect_left

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.errors import BadInput
from kvlab.core.scrape import Histogram, Percentile, Reading, Window, believed, window

INF = math.inf
# testhistogram{start="positive"} of prometheus/prometheus, promql/promqltest/testdata/histograms.test at 01cbe3d2
PROMETHEUS = Histogram(bounds=(0.1, 0.2, 1.0, INF), counts=(50, 70, 110, 120))
# testhistogram2 and testhistogram3{start="positive"} of the same file
PROMETHEUS_2 = Histogram(bounds=(0.0, 2.0, 4.0, 6.0, INF), counts=(0, 1, 2, 3, 3))
PROMETHEUS_3 = Histogram(bounds=(0.0, 0.1, 0.2, 1.0, INF), counts=(0, 50, 70, 110, 110), sum=330)


@pytest.mark.parametrize(
    ("histogram", "share", "expected"),
    [
        (PROMETHEUS, 0.0, 0.0),
        (PROMETHEUS, 0.2, 0.048),
        (PROMETHEUS, 0.5, 0.15),
        (PROMETHEUS, 0.8, 0.72),
        (PROMETHEUS_2, 1 / 6, 1.0),
        (PROMETHEUS_2, 0.5, 3.0),
        (PROMETHEUS_2, 5 / 6, 5.0),
        (PROMETHEUS_3, 0.0, 0.0),
        (PROMETHEUS_3, 0.25, 0.055),
        (PROMETHEUS_3, 0.5, 0.125),
        (PROMETHEUS_3, 0.75, 0.45),
        (PROMETHEUS_3, 1.0, 1.0),
    ],
)
def test_the_estimate_is_that_of_prometheus(histogram: Histogram, share: float, expected: float) -> None:
    """The expected values are the ones that Prometheus' test of histogram_quantile states."""
    found = histogram.percentile(share)
    assert found is not None
    assert found.estimate == pytest.approx(expected, abs=1e-9)


def test_the_last_bucket_has_a_lower_end_and_no_estimate() -> None:
    """Prometheus gives 1 for the largest of testhistogram: one of twelve lies above the last bound."""
    assert PROMETHEUS.percentile(1.0) == Percentile(low=1.0, high=INF, estimate=None)


def test_the_mean_is_that_of_prometheus() -> None:
    assert PROMETHEUS_3.mean() == 3
    assert PROMETHEUS.mean() is None


def test_without_observations_there_is_no_percentile() -> None:
    for empty in (Histogram(bounds=(1.0, INF), counts=(0, 0), sum=0.0), Histogram(bounds=(), counts=())):
        assert (empty.percentile(0.5), empty.mean()) == (None, None)


_BOUNDS = st.lists(st.floats(0.001, 1000), min_size=1, max_size=12, unique=True).map(sorted)
_SAMPLES = st.lists(st.floats(0, 2000), min_size=1, max_size=60).map(sorted)


def histogram_of(samples: list[float], bounds: list[float]) -> Histogram:
    counts = [sum(sample <= bound for sample in samples) for bound in [*bounds, INF]]
    return Histogram(bounds=(*bounds, INF), counts=tuple(counts))


@given(_SAMPLES, _BOUNDS, st.integers(0, 100))
def test_the_quantile_of_the_samples_lies_in_the_bucket(samples: list[float], bounds: list[float], per: int) -> None:
    """The quantile is the smallest sample with at least that share at or below it, counted in whole samples."""
    actual = samples[max(0, -(-per * len(samples) // 100) - 1)]
    found = histogram_of(samples, bounds).percentile(per / 100)
    assert found is not None
    assert found.low < actual <= found.high or (actual == 0 and found.low == 0)
    assert found.estimate is None or found.low <= found.estimate <= found.high
    at = bisect_left(bounds, actual)
    assert found.high == [*bounds, INF][at]


@given(_SAMPLES, _BOUNDS, st.integers(0, 99))
def test_a_higher_share_is_never_lower(samples: list[float], bounds: list[float], per: int) -> None:
    histogram = histogram_of(samples, bounds)
    low, high = histogram.percentile(per / 100), histogram.percentile((per + 1) / 100)
    assert low is not None
    assert high is not None
    assert low.low <= high.low
    assert low.estimate is None or high.estimate is None or low.estimate <= high.estimate + 1e-9


@given(_SAMPLES, _SAMPLES, _BOUNDS)
def test_the_window_holds_the_later_samples_alone(early: list[float], late: list[float], bounds: list[float]) -> None:
    first = Reading(engine="vllm", histograms={"ttft_seconds": histogram_of(early, bounds)})
    last = Reading(engine="vllm", histograms={"ttft_seconds": histogram_of([*early, *late], bounds)})
    assert window(first, last, 10).histogram("ttft_seconds") == histogram_of(late, bounds)


def between(first: Reading, last: Reading, seconds: float = 10.0) -> Window:
    return window(first, last, seconds)


def reading(**values: float) -> Reading:
    return Reading(engine="vllm", values=values)


def test_counters_grow_and_gauges_do_not() -> None:
    found = between(
        reading(generation_tokens_total=386, running=12), reading(generation_tokens_total=542, running=3), 12
    )
    assert found.grown("generation_tokens_total") == 156
    assert found.rate("generation_tokens_total") == 13
    assert found.restarted == ()


def test_a_counter_that_appears_has_no_growth() -> None:
    """Prometheus' clients create a labelled counter at its first count: before that it is unknown, not zero."""
    found = between(reading(), reading(prefix_hits_tokens_total=512))
    assert (found.grown("prefix_hits_tokens_total"), found.rate("prefix_hits_tokens_total")) == (None, None)


def test_a_restart_makes_every_difference_unknown() -> None:
    first = reading(prompt_tokens_total=900, generation_tokens_total=50)
    last = reading(prompt_tokens_total=100, generation_tokens_total=60)
    found = between(first, last)
    assert found.restarted == ("prompt_tokens_total",)
    assert found.grown("generation_tokens_total") is None


def test_a_restart_that_has_caught_up_shows_in_its_start() -> None:
    first = reading(prompt_tokens_total=900, started_at=1_795_989_345.76)
    last = reading(prompt_tokens_total=950, started_at=1_795_989_999.0)
    assert between(first, last).restarted == ("started_at",)
    assert between(first, last).grown("prompt_tokens_total") is None
    rounded = reading(prompt_tokens_total=950, started_at=1_795_989_345.8)
    assert between(first, rounded).grown("prompt_tokens_total") == 50


def test_a_restart_of_one_engine_of_two_hides_in_no_sum() -> None:
    def both(one: float, other: float) -> Reading:
        pools = {"engine=0": {"prompt_tokens_total": one}, "engine=1": {"prompt_tokens_total": other}}
        return Reading(engine="vllm", values={"prompt_tokens_total": one + other}, pools=pools)

    found = between(both(900, 100), both(50, 1200))
    assert found.restarted == ("prompt_tokens_total of engine=0",)
    assert found.grown("prompt_tokens_total") is None
    gone = between(both(900, 100), msgspec.structs.replace(both(950, 300), pools={}))
    assert gone.restarted == ("pools",)


def test_a_histogram_that_lost_observations_was_restarted() -> None:
    full, empty = (
        Reading(engine="vllm", histograms={"ttft_seconds": Histogram(bounds=(1.0, INF), counts=counts)})
        for counts in ((5, 9), (0, 1))
    )
    assert between(full, empty).restarted == ("ttft_seconds",)
    assert between(full, empty).histogram("ttft_seconds") is None


def test_buckets_that_do_not_match_make_no_window() -> None:
    def of(bounds: tuple[float, ...], counts: tuple[float, ...]) -> Reading:
        return Reading(engine="vllm", histograms={"ttft_seconds": Histogram(bounds=bounds, counts=counts)})

    assert between(of((1.0, INF), (1, 2)), of((2.0, INF), (3, 4))).histogram("ttft_seconds") is None
    # a scrape torn between buckets: the window would hold less than nothing
    assert between(of((1.0, INF), (5, 6)), of((1.0, INF), (4, 9))).histogram("ttft_seconds") is None
    assert between(of((1.0, INF), (5, 6)), Reading(engine="vllm")).histogram("ttft_seconds") is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, INF])
def test_a_window_needs_time(seconds: float) -> None:
    with pytest.raises(BadInput, match="--seconds N"):
        window(reading(), reading(), seconds)


def test_a_window_is_of_one_engine() -> None:
    with pytest.raises(BadInput, match=r"one scrape is vllm's, the other sglang's"):
        window(reading(), Reading(engine="sglang"), 5)


def test_what_cannot_be_true_was_not_seen() -> None:
    told = {"running": -1.0, "waiting": math.nan, "kv_tokens": 2.0**61, "kv_used_ratio": 1.5, "slots": 4.0}
    assert believed(told) == {"slots": 4.0}
