"""Intervals at 95 %, deterministic from a seed: bootstrap, Student, Wilson; the arms of an experiment are in `blocks`.

Percentile bootstrap intervals are widened to t quantiles and n - 1 (Hesterberg, "What Teachers Should Know About the
Bootstrap", The American Statistician 69(4), 2015, section 5.3), because the plain ones are too narrow in small samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from kvlab.core.quality import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Statistic = Literal["mean", "median", "p99"]

LEVEL = 0.95
NORMAL = 1.959963984540054
"""97.5 % quantile of the normal distribution."""
CHANCE = 0.05
"""Probability from which uneven counts of failures may be chance."""
MINIMUM = {"mean": 5, "median": 8, "p99": 368}
"""Values below which a statistic gets no interval. Median: with 8 values the sample range is the 99 % interval of order
statistics, with 5 it is not even 95 %. p99: the largest of n values lies above the 99th percentile with probability
1 - 0.99^n; a 97.5 % upper bound inside the sample needs n >= 368."""
_AT_ONCE = 4_000_000
"""Values gathered at a time: 32 MB."""


class Change(NamedTuple):
    """b / a - 1 with its 95 % interval. None: not defined (`change`), or too few values to say (`low`, `high`)."""

    change: float | None
    low: float | None
    high: float | None


NO_CHANGE = Change(None, None, None)


def reduce(values: Sequence[float], statistic: Statistic) -> float | None:
    """The statistic of `values`; None when there are none. p99 interpolates linearly, as numpy and vLLM do."""
    if not len(values):
        return None
    import numpy as np

    return float(reduced_rows(np.asarray(values, dtype=float)[None, :], statistic)[0])


def wilson(successes: float, n: float, level: float = LEVEL) -> Interval:
    """Share of `successes` among `n` with Wilson's score interval (JASA 22, 1927). Raises ValueError for n < 1.

    Neither need be whole: `n` may be the number of independent requests that a correlated sample is worth.
    """
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"{successes} of {n} is not a share")
    from statistics import NormalDist

    z = NormalDist().inv_cdf((1 + level) / 2)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    # Exact at both ends: 0 of n starts at 0 and n of n ends at 1, which rounding would miss.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Interval(share, low, high)


def fisher(a: tuple[int, int], b: tuple[int, int]) -> float:
    """Probability of (failed, completed) counts at least this uneven if both sides fail alike (exact, two-sided)."""
    import numpy as np
    from scipy.stats import fisher_exact

    return float(fisher_exact(np.array([a, b])).pvalue)


def bootstrap_interval(
    values: Sequence[float], statistic: Statistic = "mean", *, seed: int, resamples: int = 2000
) -> Interval | None:
    """The statistic of `values` with its interval. None below `MINIMUM` values."""
    if len(values) < MINIMUM[statistic]:
        return None
    import numpy as np

    data = np.asarray(values, dtype=float)
    drawn = resampled([data[None, :]], statistic, generator(seed), resamples)[0][:, 0]
    low, high = bounds(drawn, len(data))
    return Interval(float(reduced_rows(data[None, :], statistic)[0]), low, high)


def bootstrap_ratio(
    tops: Sequence[float], bottoms: Sequence[float], *, seed: int, resamples: int = 2000
) -> Interval | None:
    """sum(tops) / sum(bottoms), drawn in pairs: the mean over what groups of unequal size hold. None as for a mean."""
    if len(tops) < MINIMUM["mean"]:
        return None
    import numpy as np

    data = np.asarray([tops, bottoms], dtype=float)
    drawn = resampled([data], "mean", generator(seed), resamples)[0]
    low, high = bounds(drawn[:, 0] / drawn[:, 1], len(tops))
    return Interval(float(data[0].sum() / data[1].sum()), low, high)


def geometric_interval(values: Sequence[float]) -> Interval | None:
    """Geometric mean with Student's interval on the logarithms: for a few positive times or ratios of times.

    Exact for log-normal values, from 2 of them on, where a bootstrap has nothing to draw from. None for fewer, or for
    a value that is not positive.
    """
    if min(values, default=0.0) <= 0:
        return None
    from math import exp, log

    found = student_interval([log(value) for value in values])
    return None if found is None else Interval(exp(found.value), exp(found.low), exp(found.high))


def student_interval(values: Sequence[float]) -> Interval | None:
    """Mean with Student's interval; None for fewer than two values."""
    if len(values) < 2:
        return None
    import numpy as np
    from scipy.stats import t

    data = np.asarray(values, dtype=float)
    half = float(t.ppf((1 + LEVEL) / 2, len(data) - 1) * data.std(ddof=1) / len(data) ** 0.5)
    mean = float(data.mean())
    return Interval(mean, mean - half, mean + half)


def bootstrap_change(
    a: Sequence[float],
    b: Sequence[float],
    statistic: Statistic = "mean",
    *,
    seed: int,
    paired: bool = False,
    resamples: int = 2000,
) -> Change:
    """Relative change b / a - 1 of a statistic of two samples.

    `paired`: value i of both samples belongs to the same prompt, and prompts are drawn together. The change is None
    when a sample is empty or a's statistic is not positive; the interval is None below `MINIMUM` values in a sample.
    Raises ValueError when paired samples differ in length.
    """
    if paired and len(a) != len(b):
        raise ValueError(f"paired samples of {len(a)} and {len(b)} values")
    base, other = reduce(a, statistic), reduce(b, statistic)
    if base is None or other is None or base <= 0:
        return NO_CHANGE
    change = other / base - 1
    if min(len(a), len(b)) < MINIMUM[statistic]:
        return Change(change, None, None)
    import numpy as np

    rng = generator(seed)
    one, two = np.asarray(a, dtype=float)[None, :], np.asarray(b, dtype=float)[None, :]
    if paired:
        both = resampled([np.concatenate([one, two])], statistic, rng, resamples)[0]
        first, second = both[:, 0], both[:, 1]
    else:
        drawn = resampled([one, two], statistic, rng, resamples)
        first, second = drawn[0][:, 0], drawn[1][:, 0]
    if (first <= 0).any():
        return Change(change, None, None)
    low, high = bounds(second / first - 1, min(len(a), len(b)))
    return Change(change, low, high)


def reduced_rows(values: Array, statistic: Statistic) -> Array:
    """The statistic along the last axis."""
    import numpy as np

    if statistic == "mean":
        reduced = values.mean(axis=-1)
    elif statistic == "median":
        reduced = np.median(values, axis=-1)
    else:
        reduced = np.quantile(values, 0.99, axis=-1)
    return np.asarray(reduced, dtype=float)


def generator(seed: int) -> np.random.Generator:
    """numpy takes no negative seed, which loads and schedules do: it would fail after the last run."""
    import numpy as np

    return np.random.default_rng(seed if seed >= 0 else [1, -seed])


def resampled(groups: list[Array], statistic: Statistic, rng: np.random.Generator, resamples: int) -> list[Array]:
    """For each group (rows, n): the statistic of every row in every resample, (resamples, rows).

    The rows of a group share the drawn columns; groups are drawn independently.
    """
    import numpy as np

    found = []
    for group in groups:
        rows, n = group.shape
        step = max(1, _AT_ONCE // (rows * n))
        parts = []
        for start in range(0, resamples, step):
            columns = rng.integers(0, n, size=(min(step, resamples - start), n))
            parts.append(reduced_rows(group[:, columns], statistic).T)
        found.append(np.concatenate(parts))
    return found


def t_quantiles(freedom: int, rng: np.random.Generator, count: int) -> Array:
    """`count` evenly spaced quantiles of Student's t in random order: at 2 degrees of freedom its tails are too heavy
    to draw."""
    import numpy as np
    from scipy.stats import t

    return rng.permutation(np.asarray(t.ppf((np.arange(count) + 0.5) / count, freedom), dtype=float))


def bounds(drawn: Array, n: int) -> tuple[float, float]:
    """Percentiles that hold 95 %, widened for samples of `n` (see the module's docstring)."""
    import numpy as np
    from scipy.stats import norm, t

    tail = (1 - LEVEL) / 2
    if n > 1:
        tail = float(norm.cdf((n / (n - 1)) ** 0.5 * t.ppf(tail, n - 1)))
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return float(low), float(high)
