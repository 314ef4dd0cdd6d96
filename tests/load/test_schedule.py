from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kvlab.core.errors import BadInput
from kvlab.load.schedule import due_times, gamma_arrivals, ramp_rates
from kvlab.load.spec import LoadSpec, Ramp


def poisson_arrivals(count: int, rate: float, seed: int) -> tuple[float, ...]:
    """What a rate alone asks for."""
    due = due_times(count, LoadSpec(rate=rate, seed=seed))
    assert due is not None
    return due


@given(st.integers(1, 300), st.floats(0.01, 1e4), st.integers(0, 2**32))
def test_all_are_sent_in_count_over_rate_seconds(count: int, rate: float, seed: int) -> None:
    due = poisson_arrivals(count, rate, seed)
    assert len(due) == count
    assert list(due) == sorted(due)
    assert due[0] > 0
    assert due[-1] == pytest.approx(count / rate)


def test_the_seed_fixes_the_times() -> None:
    assert poisson_arrivals(100, 5, 1) == poisson_arrivals(100, 5, 1)
    assert poisson_arrivals(100, 5, 1) != poisson_arrivals(100, 5, 2)


def test_gaps_are_exponential() -> None:
    gaps = np.diff(poisson_arrivals(20_000, 50, 7))
    assert stats.kstest(gaps, stats.expon(scale=1 / 50).cdf).pvalue > 0.01
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.03)


def test_no_requests_no_times() -> None:
    assert poisson_arrivals(0, 5, 1) == ()


def test_the_times_of_a_seed_stay_what_they_were() -> None:
    assert poisson_arrivals(4, 2.0, 7) == pytest.approx((0.4651525252119375, 0.6595254817083647, 1.9106177970983442, 2))


@pytest.mark.parametrize("shape", [0.25, 0.5, 4.0])
def test_bursts_have_gamma_gaps(shape: float) -> None:
    """The distribution that `vllm bench serve --burstiness` draws from: numpy's gamma(shape, 1 / (rate * shape))."""
    gaps = np.diff(gamma_arrivals((20.0,) * 20_000, shape, 5))
    assert stats.kstest(gaps, stats.gamma(shape, scale=1 / (20 * shape)).cdf).pvalue > 0.01
    assert gaps.std() / gaps.mean() == pytest.approx(shape**-0.5, rel=0.05)


@given(st.floats(1e-3, 1e3), st.integers(1, 50), st.integers(0, 1000))
def test_bursts_keep_the_rate(shape: float, count: int, seed: int) -> None:
    due = gamma_arrivals((4.0,) * count, shape, seed)
    assert due[-1] == pytest.approx(count / 4)
    assert list(due) == sorted(due)


def test_endless_evenness_is_a_clock() -> None:
    assert gamma_arrivals((4.0,) * 4, float("inf"), 1) == pytest.approx((0.25, 0.5, 0.75, 1.0))


@pytest.mark.parametrize(
    ("ramp", "rates"),
    [
        (Ramp(start=1, end=3), (1, 2, 3)),
        (Ramp(start=1, end=4, shape="exponential"), (1, 2, 4)),
        (Ramp(start=8, end=2, shape="exponential"), (8, 4, 2)),
    ],
)
def test_ramps_go_from_the_first_request_to_the_last(ramp: Ramp, rates: tuple[float, ...]) -> None:
    assert ramp_rates(3, ramp) == pytest.approx(rates)
    assert ramp_rates(1, ramp) == pytest.approx(rates[:1])
    due = due_times(3, LoadSpec(ramp=ramp, burstiness=float("inf")))
    assert due == pytest.approx(np.cumsum([1 / rate for rate in rates]))


def test_given_times_are_kept() -> None:
    assert due_times(3, LoadSpec(arrivals=(0.0, 0.5, 0.5))) == (0.0, 0.5, 0.5)
    assert due_times(3, LoadSpec(concurrency=2)) is None
    with pytest.raises(BadInput, match="2 arrival times were given for 3 requests"):
        due_times(3, LoadSpec(arrivals=(0.0, 0.5)))
    with pytest.raises(BadInput, match="out of order"):
        due_times(2, LoadSpec(arrivals=(1.0, 0.5)))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"rate": 1.0, "ramp": Ramp(start=1, end=2)}, "not several"),
        ({"rate": 1.0, "burstiness": 0.0}, "above 0"),
        ({"rate": 1.0, "burstiness": float("nan")}, "above 0"),
        ({"concurrency": 1, "burstiness": 2.0}, "give a rate or a ramp too"),
        ({"arrivals": (-1.0,)}, "before the start"),
        ({"concurrency": 1, "cancel_share": 0.5}, "both a share and a time"),
        ({"concurrency": 1, "cancel_share": 1.5, "cancel_after": 1.0}, "between 0 and 1"),
        ({"concurrency": 1, "processes": 0}, "give 1 to 64, or auto"),
        ({"concurrency": 1, "retries": -1}, "0 or more"),
    ],
)
def test_loads_that_contradict_themselves(bad: dict[str, object], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        LoadSpec(**bad)  # type: ignore[arg-type]


def test_a_ramp_needs_positive_rates() -> None:
    with pytest.raises(BadInput, match="positive number"):
        Ramp(start=0, end=2)
