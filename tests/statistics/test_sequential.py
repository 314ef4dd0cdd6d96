"""Stopping early, permutations and several metrics at once, against scipy, R and simulated data."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kvlab.core.blocks import Contrast, contrast
from kvlab.core.permutation import hochberg, sign_flip
from kvlab.core.sequential import closed, confidence_sequence, e_value, e_value_beyond
from kvlab.settings import order

MOST = 8
"""Blocks of an experiment."""
RUNS = st.lists(st.floats(0.5, 2).map(lambda value: round(value, 3)), min_size=8, max_size=8)


def _arms(logs: np.ndarray, blocks: int) -> Contrast:
    """What the first blocks of one experiment show; `logs` are the runs' logarithms in their order."""
    arms = order(blocks)
    at = [number for arm in "ab" for number, one in enumerate(arms) if one == arm]
    values = [[float(np.exp(logs[number])) for number, one in enumerate(arms) if one == arm] for arm in "ab"]
    found = contrast(values[0], values[1], at)
    assert found is not None
    return found


def _noise(kind: str, rng: np.random.Generator, count: int) -> np.ndarray:
    runs = 4 * MOST
    if kind == "heavy tails":
        return rng.standard_t(3, (count, runs)) * 0.02
    drift = np.linspace(0, 0.3, runs) if kind == "drift" else 0.0
    return rng.normal(0, 0.02, (count, runs)) + drift


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "drift"])
def test_looking_after_every_block_errs_no_more_than_stated(kind: str) -> None:
    """Eight looks at 600 experiments of two alike arms: zero leaves the interval at any look in at most 5 %, 30.

    42 are reached with a chance of 2 % where it is just 5 %.
    """
    ever = 0
    for logs in _noise(kind, np.random.default_rng(5), 600):
        looks = [confidence_sequence(_arms(logs, blocks)) for blocks in range(1, MOST + 1)]
        ever += any(not look.low <= 0 <= look.high for look in looks)
    assert ever <= 42


def test_a_fixed_interval_would_err_more_when_looked_at_eight_times() -> None:
    """What the confidence sequence is for: Student's interval, looked at as often, is wrong far too often."""
    ever = 0
    for logs in _noise("normal", np.random.default_rng(5), 300):
        seen = [_arms(logs, blocks) for blocks in range(1, MOST + 1)]
        ever += any(2 * stats.t.sf(abs(one.value) / one.error, one.freedom) < 0.05 for one in seen)
    assert ever > 0.1 * 300


def test_the_contrast_is_that_of_a_regression_with_arm_and_time() -> None:
    """Against numpy's least squares on the same design, and scipy's t for its standard error."""
    rng = np.random.default_rng(2)
    logs = rng.normal(0, 0.02, 16) + np.linspace(0, 0.1, 16)
    is_b = np.asarray([arm == "b" for arm in order(4)], dtype=float)
    design = np.column_stack([np.ones(16), is_b, np.arange(16)])
    beta, rest, *_ = np.linalg.lstsq(design, logs, rcond=None)
    error = (rest[0] / 13 * np.linalg.inv(design.T @ design)[1, 1]) ** 0.5
    found = _arms(logs, 4)
    assert (found.value, found.error) == pytest.approx((beta[1], error))
    assert found.freedom == 13


def test_the_interval_closes_in_on_the_truth() -> None:
    rng = np.random.default_rng(8)
    logs = rng.normal(0, 0.02, 200) + 0.05 * np.asarray([arm == "b" for arm in order(50)])
    widths = [confidence_sequence(_arms(logs, blocks)) for blocks in (1, 2, 4, 12, 50)]
    assert math.isinf(widths[0].high)
    assert all(one.high - one.low > other.high - other.low for one, other in itertools.pairwise(widths))
    assert widths[-1].low < 0.05 < widths[-1].high
    assert widths[-1].low > 0.03


@given(RUNS)
def test_the_interval_holds_what_the_evidence_does_not_reject(values: list[float]) -> None:
    seen = _arms(np.log(values), 2)
    found = confidence_sequence(seen)
    assert found.low <= found.value <= found.high
    if math.isfinite(found.high) and found.high - found.low > 1e-9:
        inside, outside = (found.value + part * (found.high - found.value) for part in (0.99, 1.01))
        assert e_value(seen, inside) < 20 < e_value(seen, outside)
    assert e_value_beyond(seen, 0.01) <= e_value(seen) + 1e-9


@given(st.dictionaries(st.sampled_from("abcde"), st.floats(0, 1e6), min_size=1))
def test_evidence_taken_together_is_the_weakest_mean_of_any_set(e_values: dict[str, float]) -> None:
    """Vovk and Wang 2021, section 4, by going through every set."""
    for name, found in closed(e_values).items():
        others = [value for other, value in e_values.items() if other != name]
        means = [
            (e_values[name] + sum(chosen)) / (1 + len(chosen))
            for count in range(len(others) + 1)
            for chosen in itertools.combinations(others, count)
        ]
        assert found == pytest.approx(min(means))


@given(st.lists(st.integers(-9, 9), min_size=8, max_size=9))
def test_turning_signs_over_agrees_with_scipy(differences: list[int]) -> None:
    values = np.asarray(differences, dtype=float)
    expected = stats.permutation_test(
        (values,), lambda x, axis: np.abs(x.mean(axis=axis)), permutation_type="samples", vectorized=True,
        alternative="greater", n_resamples=10**6,
    )  # fmt: skip
    assert sign_flip(values.tolist()) == pytest.approx(float(expected.pvalue))


def test_many_pairs_are_drawn_and_few_say_nothing() -> None:
    rng = np.random.default_rng(1)
    differences = rng.normal(0.3, 1, 30).tolist()
    drawn = sign_flip(differences, seed=1)
    assert drawn == pytest.approx(float(stats.ttest_1samp(differences, 0).pvalue), abs=0.02)
    assert sign_flip([1.0] * 7) is None
    assert sign_flip([1.0] * 8) == 2 / 256


def test_adjusted_p_values_are_those_of_r() -> None:
    """R 4.3: p.adjust(c(0.01, 0.02, 0.03, 0.04), "hochberg") and p.adjust(c(0.001, 0.02, 0.5), "hochberg")."""
    assert list(hochberg(dict(zip("abcd", (0.01, 0.02, 0.03, 0.04), strict=True))).values()) == [0.04] * 4
    found = hochberg({"a": 0.001, "b": 0.02, "c": 0.5})
    assert found == pytest.approx({"a": 0.003, "b": 0.04, "c": 0.5})
