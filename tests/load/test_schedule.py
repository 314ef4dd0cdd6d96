from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kvlab.load.schedule import poisson_arrivals


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
