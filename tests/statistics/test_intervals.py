"""Intervals against published values, scipy, and simulated data whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kvlab.core.blocks import BlockChange, Noise, block_change, drift
from kvlab.core.statistics import (
    Change,
    bootstrap_change,
    bootstrap_interval,
    geometric_interval,
    reduce,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998), table I,
    # method 3 (Wilson's score without continuity correction).
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_limits(successes: int, n: int, low: float, high: float) -> None:
    found = wilson(successes, n)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy_everywhere(case: tuple[int, int]) -> None:
    successes, n = case
    found = wilson(successes, n)
    expected = stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert found.low == pytest.approx(expected.low, abs=1e-12)
    assert found.high == pytest.approx(expected.high, abs=1e-12)
    assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (3, 2), (-1, 4)])
def test_a_share_of_nothing_is_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="not a share"):
        wilson(successes, n)


def test_the_p99_is_the_one_that_vllm_reports() -> None:
    """vLLM reports np.percentile(values, 99); the values are its own documentation of linear interpolation."""
    values = [float(value) for value in range(1, 102)]
    assert reduce(values, "p99") == 100.0
    assert reduce([], "mean") is None


def test_a_bootstrap_of_the_mean_agrees_with_students_interval() -> None:
    """For normal data both estimate the same; 60 values and 4,000 resamples bring them within a few percent."""
    values = np.random.default_rng(4).normal(10, 2, 60)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    found = bootstrap_interval(values.tolist(), "mean", seed=1, resamples=4000)
    assert found is not None
    assert found.low == pytest.approx(low, abs=0.08)
    assert found.high == pytest.approx(high, abs=0.08)


def test_a_geometric_mean_has_students_interval_on_logarithms() -> None:
    times = [6.9, 7.4, 7.1]
    limits = stats.ttest_1samp(np.log(times), 0).confidence_interval(0.95)
    found = geometric_interval(times)
    assert found is not None
    assert found.value == pytest.approx(stats.gmean(times))
    assert (found.low, found.high) == pytest.approx((np.exp(limits.low), np.exp(limits.high)))
    assert geometric_interval([1.0]) is None
    assert geometric_interval([1.0, 0.0]) is None


def test_the_same_seed_gives_the_same_interval() -> None:
    a, b = [1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 3.0, 3.0, 4.0, 7.0]
    assert bootstrap_change(a, b, seed=9) == bootstrap_change(a, b, seed=9)
    assert bootstrap_change(a, b, seed=9) != bootstrap_change(a, b, seed=10)


def test_pairing_removes_what_a_prompt_costs_in_both_arms() -> None:
    rng = np.random.default_rng(5)
    a = rng.lognormal(0, 1, 60)
    b = a * 1.1 * np.exp(rng.normal(0, 0.02, 60))
    together = bootstrap_change(a.tolist(), b.tolist(), seed=1, paired=True)
    apart = bootstrap_change(a.tolist(), b.tolist(), seed=1)
    assert together.low is not None
    assert together.high is not None
    assert apart.low is not None
    assert 0.09 < together.low < 0.1 < together.high < 0.11
    assert apart.low < 0


def test_too_few_values_give_a_change_without_an_interval() -> None:
    assert bootstrap_change([1, 2, 3], [2, 4, 6], seed=0) == Change(1.0, None, None)
    assert bootstrap_change([], [2.0], seed=0) == Change(None, None, None)
    assert bootstrap_change([0.0] * 9, [2.0] * 9, seed=0) == Change(None, None, None)
    assert bootstrap_interval([1.0] * 4, seed=0) is None
    # A 97.5 % upper bound of the 99th percentile needs 0.99^n <= 0.025: 367 values leave 0.0250, 368 do not.
    assert bootstrap_interval([1.0] * 367, "p99", seed=0) is None
    assert bootstrap_interval([1.0] * 368, "p99", seed=0) is not None


def test_samples_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="paired"):
        bootstrap_change([1.0], [1.0, 2.0], seed=0, paired=True)
    with pytest.raises(ValueError, match="different numbers"):
        block_change([[1.0, 2.0]], [[1.0]], seed=0)


def test_one_number_per_run_gives_students_interval_of_four_runs() -> None:
    """Welch's and Student's test are scipy's; with equal arms of two runs the pooled one has 2 degrees of freedom."""
    a, b = [100.0, 102.0], [120.0, 121.0]
    expected = np.expm1(stats.ttest_ind(np.log(b), np.log(a)).confidence_interval(0.95))
    found = block_change([[value] for value in a], [[value] for value in b], seed=1)
    assert found.change == pytest.approx(241 / 202 - 1)
    assert found.low == pytest.approx(expected[0], abs=0.004)
    assert found.high == pytest.approx(expected[1], abs=0.004)


def test_one_run_per_arm_has_no_interval() -> None:
    found = block_change([[1.0] * 20], [[2.0] * 20], seed=1)
    assert found == BlockChange(1.0)


def test_two_runs_of_a_laboratory_differ_by_less_than_the_repeatability_limit_of_iso_5725() -> None:
    """ISO 5725-6, 4.1.4: r = 2.8 s. A method with a repeatability standard deviation of 1 % has a limit of 2.8 %."""
    assert Noise(0.01, 20).repeatability == pytest.approx(0.028, abs=0.0005)
    # 4.2.2: averages of two on either side: 2.8 s / sqrt(2)
    assert Noise(0.01, 20).between_arms(2, 2) == pytest.approx(0.028 / 2**0.5, abs=0.0005)


def test_a_steady_drift_is_found_and_kept_out_of_the_change() -> None:
    """Eight runs in balanced order; the machine slows by 1 % a run; scipy's regression gives the same slope and p."""
    order = "abbabaab"
    rng = np.random.default_rng(3)
    times = [np.exp(0.01 * at + rng.normal(0, 0.002)) * (1.1 if arm == "b" else 1.0) for at, arm in enumerate(order)]
    arms = {
        arm: [(at, time) for at, (one, time) in enumerate(zip(order, times, strict=True)) if one == arm] for arm in "ab"
    }
    at = [at for arm in "ab" for at, _ in arms[arm]]
    values = [[time for _, time in arms[arm]] for arm in "ab"]
    found = drift(values[0], values[1], at)
    assert found is not None
    assert found.change == pytest.approx(np.expm1(0.07), abs=0.005)
    assert found.p < 0.001
    without, with_order = (
        block_change([[v] for v in values[0]], [[v] for v in values[1]], seed=1, at=order_) for order_ in (None, at)
    )
    assert without.low is not None
    assert without.high is not None
    assert with_order.low is not None
    assert with_order.high is not None
    assert with_order.low <= 0.1 <= with_order.high
    assert with_order.high - with_order.low < (without.high - without.low) / 3
    assert drift(values[0][:2], values[1][:2], [0, 3, 1, 2]) is None


@pytest.mark.parametrize("paired", [True, False])
def test_an_interval_of_a_change_covers_the_truth(paired: bool) -> None:
    rng = np.random.default_rng(11)
    covered = 0
    for trial in range(300):
        a = rng.lognormal(0, 0.5, 50)
        b = 1.2 * (a * np.exp(rng.normal(-0.02, 0.2, 50)) if paired else rng.lognormal(0, 0.5, 50))
        found = bootstrap_change(a.tolist(), b.tolist(), seed=trial, paired=paired, resamples=500)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.2 <= found.high
    assert 0.90 <= covered / 300 <= 0.99


@pytest.mark.parametrize(
    ("between_runs", "within_run"),
    [(0.0, 0.1), (0.02, 0.1), (0.05, 0.05)],
    ids=["only prompts scatter", "both alike", "runs differ"],
)
def test_an_interval_of_an_abba_experiment_covers_the_truth(between_runs: float, within_run: float) -> None:
    """Prompts cost 0.6 (log) more or less than each other; B is 20 % slower; the machine changes between runs."""
    rng = np.random.default_rng(12)
    covered = 0
    for trial in range(300):
        prompts = rng.lognormal(0, 0.6, 48)
        runs: dict[str, list[list[float]]] = {"a": [], "b": []}
        for arm in "abba":
            times = prompts * np.exp(rng.normal(0, within_run, 48)) * np.exp(rng.normal(0, between_runs))
            runs[arm].append((times * (1.2 if arm == "b" else 1.0)).tolist())
        found = block_change(runs["a"], runs["b"], seed=trial, resamples=500)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.2 <= found.high
    assert 0.90 <= covered / 300 <= 0.99


def test_any_whole_number_is_a_seed() -> None:
    values = [1.0, 2.0, 4.0, 3.0, 5.0, 9.0]
    found = {seed: bootstrap_interval(values, seed=seed) for seed in (-1, -2, -1, 10**30)}
    assert all(found.values())
    assert found[-1] == bootstrap_interval(values, seed=-1)
