"""Arm A against arm B, metric by metric, from runs in the order A B B A."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvlab.core.comparison import ComparisonRow, RowVerdict
from kvlab.core.errors import BadInput
from kvlab.core.record import Run, RunRow
from kvlab.core.statistics import MINIMUM, Change, Statistic, block_change, noise_floor, reduce

SMALLEST = 0.01
"""A change below 1 % is no difference, however narrow its interval: nobody redeploys for it."""
WIDE = 0.2
"""An interval that reaches beyond 20 % either way could hide a change that matters: then nothing can be said."""

USELESS = 10.0
"""An interval that reaches beyond +-1000 % is not worth printing."""


class Metric(NamedTuple):
    """A metric under its name in vLLM's result file; `statistic` None: one number per run, kept in `Run.metrics`."""

    name: str
    unit: str
    higher_is_better: bool
    statistic: Statistic | None = None
    value: Callable[[RunRow], float | None] = lambda row: None


def _per_request(name: str, value: Callable[[RunRow], float | None]) -> tuple[Metric, ...]:
    statistics: tuple[Statistic, ...] = ("mean", "median", "p99")
    return tuple(Metric(f"{statistic}_{name}", "ms", False, statistic, value) for statistic in statistics)


METRICS = (
    Metric("request_throughput", "requests/s", True),
    Metric("output_throughput", "tokens/s", True),
    *_per_request("ttft_ms", lambda row: row.ttft),
    *_per_request("tpot_ms", lambda row: row.tpot),
    *_per_request("e2el_ms", lambda row: row.e2e),
)


def percent(change: float) -> str:
    """A relative change as "+4.2 %" or "-31 %"."""
    return f"{change * 100:+.0f} %" if abs(change) >= 0.1 else f"{change * 100:+.1f} %"


def share(part: float) -> str:
    """A share as "93 %" or "4.2 %"."""
    return f"{part * 100:.0f} %" if part >= 0.1 or part == 0 else f"{part * 100:.1f} %"


def percent_range(low: float, high: float) -> str:
    """A 95 % interval as "-24 % to +14 %"; beyond ten times either way it says nothing, and the text says so."""
    if max(abs(low), abs(high)) > USELESS:
        return "no usable interval: the runs differ too much"
    return f"95 % interval {percent(low)} to {percent(high)}"


def compare_runs(runs: Sequence[Run], *, seed: int, resamples: int = 2000) -> tuple[ComparisonRow, ...]:
    """One row per metric that both arms have.

    Latencies compare the prompts that were answered in every run, by their position in `Run.rows`; an arm's value is
    the mean over its runs. A metric is better or worse only if its 95 % interval excludes zero *and* the change exceeds
    both the noise floor (the change between two runs of the same arm) and 1 %. Otherwise no difference was seen, or,
    when the interval reaches beyond 20 %, nothing can be said. Raises BadInput when runs hold different numbers of
    prompts.
    """
    lengths = sorted({len(run.rows) for run in runs})
    if len(lengths) > 1:
        raise BadInput(
            f"the runs hold {' and '.join(map(str, lengths))} requests, so their prompts do not pair; run the"
            " experiment again with the same prompts in every run"
        )
    found = []
    for metric in METRICS:
        values = _values(metric, runs)
        arms = [[row for row, run in zip(values, runs, strict=True) if run.arm == arm] for arm in "ab"]
        if all(arms) and all(values):
            found.append(_row(metric, arms[0], arms[1], seed, resamples))
    return tuple(found)


def _values(metric: Metric, runs: Sequence[Run]) -> list[list[float]]:
    """Per run: the values of the prompts that every run answered, or the run's one number. Empty lists: not there."""
    if metric.statistic is None:
        return [[run.metrics[metric.name]] if metric.name in run.metrics else [] for run in runs]
    columns = [[None if row.error else metric.value(row) for row in run.rows] for run in runs]
    kept = [i for i, values in enumerate(zip(*columns, strict=True)) if None not in values]
    return [[value * 1000 for i in kept if (value := column[i]) is not None] for column in columns]


def _row(metric: Metric, a: list[list[float]], b: list[list[float]], seed: int, resamples: int) -> ComparisonRow:
    statistic = metric.statistic or "mean"
    change = block_change(a, b, statistic, seed=seed, resamples=resamples)
    per_run = [[value for run in arm if (value := reduce(run, statistic)) is not None] for arm in (a, b)]
    noise = noise_floor(*per_run)
    verdict, because = _row_verdict(metric, change, noise, len(a[0]))
    return ComparisonRow(
        metric=metric.name,
        unit=metric.unit,
        a=sum(per_run[0]) / len(per_run[0]),
        b=sum(per_run[1]) / len(per_run[1]),
        change=change.change,
        low=change.low,
        high=change.high,
        noise=noise,
        verdict=verdict,
        because=because,
    )


def _row_verdict(metric: Metric, change: Change, noise: float | None, prompts: int) -> tuple[RowVerdict, str]:
    if change.change is None:
        return "inconclusive", "arm A's value is not above zero, so there is no relative change"
    if change.low is None or change.high is None or noise is None:
        if noise is None:
            return "inconclusive", "an arm ran only once, so the noise between runs is unknown"
        if prompts == 1:
            return "inconclusive", "a run's value is zero, so there is no relative noise"
        needed = MINIMUM[metric.statistic or "mean"]
        return "inconclusive", f"an interval needs {needed} prompts answered in every run, there are {prompts}"
    return judged(change.change, (change.low, change.high), higher_is_better=metric.higher_is_better, noise=noise)


def judged(
    change: float, interval: tuple[float, float], *, higher_is_better: bool, noise: float = 0.0
) -> tuple[RowVerdict, str]:
    """The rule of a row that has an interval: see `compare_runs`; `noise` 0 where it was not measured."""
    low, high = interval
    threshold = max(noise, SMALLEST)
    excludes_zero = low > 0 or high < 0
    if excludes_zero and abs(change) > threshold:
        better = (change > 0) == higher_is_better
        beyond = " and the change exceeds the noise" if noise else ""
        return ("better" if better else "worse"), f"the interval excludes zero{beyond}"
    if max(-low, high) > WIDE and not excludes_zero:
        return "inconclusive", "the interval is too wide to see a change"
    if not excludes_zero:
        return "no difference seen", "the interval includes zero"
    if threshold > SMALLEST:
        return "no difference seen", f"runs of the same arm differ by {share(noise)}, as much as the arms do"
    return "no difference seen", f"the change is below {share(SMALLEST)}"
