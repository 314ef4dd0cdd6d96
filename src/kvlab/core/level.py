"""How high a metric of one arm is, with an interval that covers its prompts and the noise between runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvlab.core.performance import METRICS, Metric
from kvlab.core.record import Run
from kvlab.core.statistics import MINIMUM, Statistic, bounds, generator, reduce, resampled


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of one arm: the mean over its runs, with its 95 % interval (None: too few values to say).

    `noise` is the largest relative change between its runs, None when it ran once.
    """

    metric: str
    unit: str
    value: float
    low: float | None
    high: float | None
    noise: float | None


def levels(runs: Sequence[Run], others: Sequence[Run] = (), *, seed: int, resamples: int = 2000) -> tuple[Level, ...]:
    """The metrics of an arm's `runs`, as `compare_runs` defines them.

    Two sources of error are in an interval: prompts, drawn with replacement and the same ones for every run, and the
    noise between runs, with Student's t. Its variance is pooled with that of `others`, the runs of another arm of the
    same experiment, for two runs alone say little about it.
    """
    found = []
    for metric in METRICS:
        mine, theirs = _values(metric, runs), _values(metric, others)
        if mine and all(mine):
            found.append(_level(metric, mine, theirs if all(theirs) else [], seed, resamples))
    return tuple(found)


def _values(metric: Metric, runs: Sequence[Run]) -> list[list[float]]:
    """Per run: the values of the prompts that every run answered, in milliseconds, or the run's one number."""
    if metric.statistic is None:
        return [[run.metrics[metric.name]] if metric.name in run.metrics else [] for run in runs]
    columns = [[None if row.error else metric.value(row) for row in run.rows] for run in runs]
    if len({len(column) for column in columns}) > 1:
        return [[] for _ in columns]
    kept = [at for at, values in enumerate(zip(*columns, strict=True)) if None not in values]
    return [[value * 1000 for at in kept if (value := column[at]) is not None] for column in columns]


def _level(metric: Metric, mine: list[list[float]], theirs: list[list[float]], seed: int, resamples: int) -> Level:
    statistic = metric.statistic or "mean"
    per_run = [value for run in mine if (value := reduce(run, statistic)) is not None]
    beside = [value for run in theirs if (value := reduce(run, statistic)) is not None]
    low, high = _interval(statistic, mine, (per_run, beside), seed, resamples)
    return Level(
        metric=metric.name,
        unit=metric.unit,
        value=sum(per_run) / len(per_run),
        low=low,
        high=high,
        noise=max(per_run) / min(per_run) - 1 if len(per_run) > 1 and min(per_run) > 0 else None,
    )


def _interval(
    statistic: Statistic, mine: list[list[float]], arms: tuple[list[float], list[float]], seed: int, resamples: int
) -> tuple[float | None, float | None]:
    import numpy as np
    from scipy.stats import t

    repeated = [arm for arm in arms if len(arm) > 1]
    freedom, prompts = sum(len(arm) - 1 for arm in repeated), len(mine[0])
    if not freedom or min(map(min, (*repeated, arms[0]))) <= 0 or 1 < prompts < MINIMUM[statistic]:
        return None, None
    deviation = (sum(len(arm) * float(np.var(np.log(arm))) for arm in repeated) / freedom / len(mine)) ** 0.5
    rng, runs = generator(seed), np.asarray(mine, dtype=float)
    drawn = resampled([runs], statistic, rng, resamples)[0] if prompts > 1 else np.repeat(runs.T, resamples, 0)
    # Evenly spaced quantiles of t in random order, as in `block_change`: its tails are too heavy to draw.
    noise = rng.permutation(t.ppf((np.arange(resamples) + 0.5) / resamples, freedom))
    low, high = bounds(np.log(drawn.mean(axis=1)) + deviation * noise, prompts)
    return float(np.exp(low)), float(np.exp(high))
