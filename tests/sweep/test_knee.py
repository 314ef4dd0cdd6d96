"""The knee abstains where data do not bend, and its interval holds the truth."""

from __future__ import annotations

import numpy as np
import pytest

from kvlab.core.knee import Curve, knee
from kvlab.core.sweep import Over

LOADS = (1, 2, 4, 8, 16, 32)


def curves(shape: object, noise: float, seed: int) -> list[Curve]:
    rng = np.random.default_rng(seed)
    return [
        Curve(load, tuple(shape(load) * np.exp(rng.normal(0, noise) + rng.normal(0, noise, 10))))  # type: ignore[operator]
        for load in LOADS
    ]


def test_the_interval_holds_a_known_knee_nearly_always() -> None:
    """Throughput in proportion up to 10, level beyond, with noise of 4 % between runs and within them."""
    held = 0
    for seed in range(30):
        found = knee("concurrency", curves(lambda load: 50.0 * min(load, 10), 0.04, seed), seed)
        assert found.load is not None
        assert found.load.low is not None
        assert found.load.high is not None
        held += found.load.low <= 10 <= found.load.high
    assert held >= 26


def test_a_straight_line_has_no_knee() -> None:
    called = sum(knee("concurrency", curves(lambda load: 50.0 * load, 0.03, s), s).code == "found" for s in range(30))
    assert called <= 2
    assert knee("rate", curves(lambda load: 50.0 * load, 0.0, 0)).because.startswith("the data do not bend up to 32")


def test_a_server_that_is_full_from_the_start_has_none() -> None:
    found = knee("concurrency", curves(lambda load: 50.0, 0.01, 2))
    assert (found.code, found.load) == ("abstains", None)
    assert "does not rise" in found.because


def test_a_slope_below_proportion_is_fitted() -> None:
    """Batches that take longer: throughput as the power 0.7 of the load, up to 8."""
    found = knee("concurrency", curves(lambda load: 50.0 * min(load, 8) ** 0.7, 0.01, 3))
    assert found.load is not None
    assert found.slope is not None
    assert found.load.value == pytest.approx(8, rel=0.1)
    assert found.slope.value == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize("over", ["rate", "concurrency"])
def test_three_points_are_too_few(over: Over) -> None:
    found = knee(over, curves(lambda load: 50.0 * min(load, 2), 0.01, 4)[:3])
    assert found.code == "abstains"
    assert knee(over, curves(lambda load: 50.0, 0.01, 4)[:1]).because.startswith("1 point with a steady throughput;")
    assert "at least 4" in found.because


def test_points_without_a_steady_time_are_left_out() -> None:
    empty = [Curve(64, ()), Curve(128, (0.0, 0.0))]
    assert knee("rate", [*curves(lambda load: 50.0 * min(load, 8), 0.01, 5), *empty]).code == "found"
