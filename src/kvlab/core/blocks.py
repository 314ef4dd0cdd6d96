"""The change between two arms that ran in blocks (A B B A, B A A B ...), and the noise between runs of one arm.

A run is one load on a freshly started engine. Order cancels a drift that is linear in time from the change; from eight
runs on the drift is also taken out of the noise, by least squares on the logarithms of the runs' values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvlab.core.statistics import (
    MINIMUM,
    NORMAL,
    Statistic,
    bounds,
    generator,
    reduced_rows,
    resampled,
    t_quantiles,
)

if TYPE_CHECKING:
    from kvlab.core.statistics import Array

DRIFT_RUNS = 8
"""Runs from which a drift can be told from noise: with fewer, a line through them takes most of the noise with it."""
_BLOCK = 4
_REPEATABILITY = NORMAL * 2**0.5
"""ISO 5725-6, section 4.1: two results of one laboratory differ by less than 2.77 standard deviations 95 times of 100.
Here the laboratory is a machine and a result one run."""


class Noise(NamedTuple):
    """How runs of one arm scatter: the standard deviation of a run's logarithm, known from `freedom` degrees."""

    deviation: float
    freedom: int

    @property
    def repeatability(self) -> float:
        """The relative change that two runs of one arm stay below in 95 cases of 100 (ISO 5725-6)."""
        return math.expm1(min(_REPEATABILITY * self.deviation, 50.0))

    def between_arms(self, a: int, b: int) -> float:
        """The relative change that two arms of one configuration stay below in 95 of 100 experiments of this size."""
        return math.expm1(min(NORMAL * self.deviation * (1 / a + 1 / b) ** 0.5, 50.0))

    @classmethod
    def seen_between(cls, change: float, runs: int, freedom: int) -> Noise:
        """The noise of which `between_arms(runs, runs)` is `change`."""
        return cls(math.log1p(change) / (NORMAL * (2 / runs) ** 0.5), freedom)


class Drift(NamedTuple):
    """How far the machine moved from the first run to the last, as a relative change, and its two-sided p-value."""

    change: float
    p: float


class Contrast(NamedTuple):
    """log(B / A) of the arms by least squares, beside a linear drift, and how well it is known."""

    value: float
    error: float
    """Standard error."""
    freedom: int
    size: float
    """The variance of `value` is that of a run divided by this."""


class BlockChange(NamedTuple):
    """b / a - 1 of two arms with its 95 % interval, the two-sided p-value that goes with it, and the noise.

    None: not defined (`change`), or too few runs or prompts to say (the others).
    """

    change: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    noise: Noise | None = None


def block_change(
    a: Sequence[Sequence[float]],
    b: Sequence[Sequence[float]],
    statistic: Statistic = "mean",
    *,
    seed: int,
    resamples: int = 2000,
    at: Sequence[int] | None = None,
) -> BlockChange:
    """Relative change between arms that ran several times, with the noise between runs in the interval.

    `a` and `b` hold one row per run; value i of every row belongs to the same prompt. An arm's value is the mean over
    its runs of the run's statistic. Two sources of error enter the interval, both drawn in every resample:

    * the prompts: drawn with replacement, the same ones for every run, so what a prompt costs in both arms cancels;
    * the runs: what differs between two runs of the same arm (machine, neighbours, drift) does not shrink with more
      prompts. Its variance is pooled over the arms from the logarithms of the runs' values, less half of what the
      prompts' own scatter explains, and enters with Student's t at the degrees of freedom that are left, because it is
      known from very few runs. Half: taking away all of it leaves 92 % intervals where both sources are equal, taking
      away nothing gives 99 % intervals of twice the width (tests/statistics simulates it).

    `at` says when each run was made, those of `a` first (their numbers in the order of the experiment); with it, and
    from `DRIFT_RUNS` runs on in a balanced order, a linear drift is no part of the noise. A run-level number such as
    throughput is a row of one value: only the second source counts. The interval is None with one run per arm (the
    noise between runs is then unknown), below `MINIMUM` prompts, or for values not positive. Raises ValueError when
    rows differ in length.
    """
    import numpy as np

    widths = {len(row) for row in (*a, *b)}
    if len(widths) > 1:
        raise ValueError(f"runs with different numbers of prompts: {sorted(widths)}")
    if not a or not b or widths == {0}:
        return BlockChange(None)
    runs = np.asarray([*a, *b], dtype=float)
    values, split, prompts = reduced_rows(runs, statistic), len(a), runs.shape[1]
    base = float(values[:split].mean())
    if base <= 0:
        return BlockChange(None)
    change = float(values[split:].mean()) / base - 1
    residual = _residual(split, len(b), at)
    freedom = round(float(np.trace(residual)))
    if freedom < 1 or (values <= 0).any():
        return BlockChange(change)
    seen = residual @ np.log(values)
    noise = Noise(float((seen**2).sum() / freedom) ** 0.5, freedom)
    if 1 < prompts < MINIMUM[statistic]:
        return BlockChange(change, noise=noise)
    rng = generator(seed)
    drawn = resampled([runs], statistic, rng, resamples)[0] if prompts > 1 else np.repeat(values[None, :], resamples, 0)
    if (drawn <= 0).any():
        return BlockChange(change, noise=noise)
    explained = (np.log(drawn) @ residual).var(axis=0)
    variance = max(0.0, float((seen**2).sum() - explained.sum() / 2) / freedom)
    deviation = (variance * (1 / split + 1 / len(b))) ** 0.5
    ratio = np.log(drawn[:, split:].mean(axis=1) / drawn[:, :split].mean(axis=1))
    ratio = ratio + deviation * t_quantiles(freedom, rng, resamples)
    low, high = bounds(np.expm1(ratio), prompts)
    return BlockChange(change, low, high, _p_value(ratio, prompts), noise)


def drift(a: Sequence[float], b: Sequence[float], at: Sequence[int]) -> Drift | None:
    """The linear drift of the runs' values (logarithms) over the experiment, beside the difference of the arms.

    Ordinary least squares with Student's t. None below `DRIFT_RUNS` runs, for an order that is not balanced, and for
    values that are not positive.
    """
    import numpy as np
    from scipy.stats import t

    values = np.asarray([*a, *b], dtype=float)
    if not _drifts(len(a), len(b), at) or (values <= 0).any():
        return None
    when = np.asarray(at, dtype=float) - np.mean(at)
    logs = np.log(values)
    slope = float((when @ logs) / (when @ when))
    residual = _residual(len(a), len(b), at) @ logs
    freedom = len(values) - 3
    error = float((residual @ residual) / freedom / (when @ when)) ** 0.5
    p = 2 * float(t.sf(abs(slope) / error, freedom)) if error > 0 else float(slope == 0)
    return Drift(math.expm1(slope * (max(at) - min(at))), p)


def contrast(a: Sequence[float], b: Sequence[float], at: Sequence[int]) -> Contrast | None:
    """The difference of the arms' logarithms with a linear drift taken out, however few the runs.

    None with fewer than four runs, for an order that is not balanced, and for values that are not positive.
    """
    import numpy as np

    values = np.asarray([*a, *b], dtype=float)
    if not _balanced(len(a), len(b), at) or len(values) < _BLOCK or (values <= 0).any():
        return None
    logs = np.log(values)
    residual = _residual(len(a), len(b), at, least=_BLOCK) @ logs
    freedom, size = len(values) - 3, len(values) / 4
    deviation = float((residual @ residual) / freedom) ** 0.5
    # What rounding leaves of runs that are all alike is no noise.
    deviation = 0.0 if deviation < 1e-12 else deviation
    value = float(logs[len(a) :].mean() - logs[: len(a)].mean())
    return Contrast(value, deviation / size**0.5, freedom, size)


def _balanced(a: int, b: int, at: Sequence[int] | None) -> bool:
    """Whether the order favours neither arm in a drift."""
    return at is not None and a == b and sum(at[:a]) == sum(at[a:])


def _drifts(a: int, b: int, at: Sequence[int] | None) -> bool:
    """Whether a drift can be taken out: enough runs, in an order in which it favours neither arm."""
    return a + b >= DRIFT_RUNS and _balanced(a, b, at)


def _residual(a: int, b: int, at: Sequence[int] | None, least: int = DRIFT_RUNS) -> Array:
    """The matrix that takes the arms' means, and from `least` balanced runs on the drift, out of the runs' values."""
    import numpy as np

    arm = np.arange(a + b) < a
    columns = [arm / a**0.5, ~arm / b**0.5]
    if at is not None and a + b >= least and _balanced(a, b, at):
        # Balanced, so at right angles to the difference of the arms.
        when = np.asarray(at, dtype=float) - np.mean(at)
        for column in tuple(columns):
            when = when - column * (column @ when)
        columns.append(when / (when @ when) ** 0.5)
    return np.eye(a + b) - sum(np.outer(column, column) for column in columns)


def _p_value(ratio: Array, prompts: int) -> float:
    """Twice the share of the draws beyond zero, narrowed back as `bounds` widens it; at least that of one draw."""
    from scipy.stats import norm, t

    share = max(min(float((ratio >= 0).mean()), float((ratio <= 0).mean())), 1 / len(ratio))
    if prompts > 1:
        share = float(t.cdf(norm.ppf(min(share, 0.5)) / (prompts / (prompts - 1)) ** 0.5, prompts - 1))
    return min(1.0, 2 * share)
