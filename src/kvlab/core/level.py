"""How high a metric of one arm is, with an interval that covers its prompts and the noise between runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvlab.core.performance import METRICS, Metric, per_run
from kvlab.core.record import Run
from kvlab.core.statistics import MINIMUM, Statistic, bounds, generator, reduce, resampled, t_quantiles


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
        mine, theirs = per_run(metric, runs), per_run(metric, others)
        if mine and all(mine):
            found.append(_level(metric, mine, theirs if all(theirs) else [], seed, resamples))
    return tuple(found)


def _level(metric: Metric, mine: list[list[float]], theirs: list[list[float]], seed: int, resamples: int) -> Level:
    statistic = metric.statistic or "mean"
    own = [value for run in mine if (value := reduce(run, statistic)) is not None]
    beside = [value for run in theirs if (value := reduce(run, statistic)) is not None]
    low, high = _interval(statistic, mine, (own, beside), seed, resamples)
    return Level(
        metric=metric.name,
        unit=metric.unit,
        value=sum(own) / len(own),
        low=low,
        high=high,
        noise=max(own) / min(own) - 1 if len(own) > 1 and min(own) > 0 else None,
    )


def _interval(
    statistic: Statistic, mine: list[list[float]], arms: tuple[list[float], list[float]], seed: int, resamples: int
) -> tuple[float | None, float | None]:
    import numpy as np

    repeated = [arm for arm in arms if len(arm) > 1]
    freedom, prompts = sum(len(arm) - 1 for arm in repeated), len(mine[0])
    if not freedom or min(map(min, (*repeated, arms[0]))) <= 0 or 1 < prompts < MINIMUM[statistic]:
        return None, None
    deviation = (sum(len(arm) * float(np.var(np.log(arm))) for arm in repeated) / freedom / len(mine)) ** 0.5
    rng, runs = generator(seed), np.asarray(mine, dtype=float)
    drawn = resampled([runs], statistic, rng, resamples)[0] if prompts > 1 else np.repeat(runs.T, resamples, 0)
    low, high = bounds(np.log(drawn.mean(axis=1)) + deviation * t_quantiles(freedom, rng, resamples), prompts)
    return float(np.exp(low)), float(np.exp(high))
