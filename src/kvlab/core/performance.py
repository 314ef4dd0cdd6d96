"""Arm A against arm B, metric by metric, from runs in the order A B B A (and B A A B, A B B A ...)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kvlab.core.blocks import BlockChange, block_change, contrast
from kvlab.core.comparison import ComparisonRow, RowVerdict
from kvlab.core.errors import BadInput
from kvlab.core.permutation import hochberg, sign_flip
from kvlab.core.record import Run, RunRow
from kvlab.core.sequential import ALPHA, closed, confidence_sequence, e_value_beyond
from kvlab.core.statistics import MINIMUM, Statistic, reduce

SMALLEST = 0.01
"""A change of 1 % is no difference: nobody redeploys for it. An interval must lie beyond it (a minimum-effect test)."""
NARROW, WIDE = 0.05, 0.2
"""Between these lies the margin of "no difference seen", whatever the noise: below 5 % few would act, and an interval
that reaches beyond 20 % either way could hide a change that matters."""

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


PRIMARY = ("output_throughput", "mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms")
"""The metrics that decide. What is claimed of them errs together at 5 %; the others are shown, each at its own 95 %."""
DECISIVE = ("output_throughput", "mean_e2el_ms")
"""Of those, the whole request: what a user waits for, and what the machine yields."""
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


def compare_runs(
    runs: Sequence[Run], *, seed: int, resamples: int = 2000, sequential: bool = False
) -> tuple[ComparisonRow, ...]:
    """One row per metric that both arms have.

    Latencies compare the prompts that were answered in every run, by their position in `Run.rows`; an arm's value is
    the mean over its runs. A metric is better or worse only if

    * its 95 % interval lies wholly beyond 1 % either way, and the change exceeds what two arms of one configuration
      would differ by (`noise`), and
    * for the four metrics that decide: the p-value, adjusted for the four (Hochberg), is at most 5 %, and so is that of
      the permutation test over pairs of runs, adjusted alike, where there are pairs enough to reach it.

    No difference was seen when the interval lies within the margin, and the change within half of it. The margin is
    what two runs of one arm differ by in 95 of 100 cases, but at least 5 and at most 20 %. Otherwise nothing can be
    said.

    `sequential`: somebody looked after every block and could have stopped. Then interval and evidence are those of
    `core.sequential`, which hold at every look at once.

    Raises BadInput when runs hold different numbers of prompts.
    """
    lengths = sorted({len(run.rows) for run in runs})
    if len(lengths) > 1:
        raise BadInput(
            f"the runs hold {' and '.join(map(str, lengths))} requests, so their prompts do not pair; run the"
            " experiment again with the same prompts in every run"
        )
    seen = [
        _seen(metric, values, runs, seed=seed, resamples=resamples, sequential=sequential)
        for metric in METRICS
        if all(values := per_run(metric, runs)) and {run.arm for run in runs} == {"a", "b"}
    ]
    deciding = [one for one in seen if one.metric.name in PRIMARY]
    adjusted = _adjusted(deciding, sequential=sequential)
    return tuple(_row(one, adjusted.get(one.metric.name, one.chance), sequential=sequential) for one in seen)


class _Chance(NamedTuple):
    """How likely chance alone is: p-values, or e-values where somebody looked in between. None: not known."""

    p: float | None = None
    permutation_p: float | None = None
    evidence: float | None = None


class _Seen(NamedTuple):
    """One metric: every run's value by arm, the change, and what chance does."""

    metric: Metric
    arms: tuple[list[float], list[float]]
    found: BlockChange
    chance: _Chance
    prompts: int


def per_run(metric: Metric, runs: Sequence[Run]) -> list[list[float]]:
    """Of every run: the values of the prompts that all runs answered, in milliseconds, or the run's one number.

    Empty lists: it is not there, or the runs hold different numbers of prompts.
    """
    if metric.statistic is None:
        return [[run.metrics[metric.name]] if metric.name in run.metrics else [] for run in runs]
    columns = [[None if row.error else metric.value(row) for row in run.rows] for run in runs]
    if len({len(column) for column in columns}) > 1:
        return [[] for _ in columns]
    kept = [i for i, values in enumerate(zip(*columns, strict=True)) if None not in values]
    return [[value * 1000 for i in kept if (value := column[i]) is not None] for column in columns]


def _seen(
    metric: Metric, values: list[list[float]], runs: Sequence[Run], *, seed: int, resamples: int, sequential: bool
) -> _Seen:
    statistic = metric.statistic or "mean"
    a, b = ([row for row, run in zip(values, runs, strict=True) if run.arm == arm] for arm in "ab")
    at = [run.block for arm in "ab" for run in runs if run.arm == arm]
    found = block_change(a, b, statistic, seed=seed, resamples=resamples, at=at)
    one, other = ([value for row in arm if (value := reduce(row, statistic)) is not None] for arm in (a, b))
    pairs = pair_differences(
        {
            run.block: (run.arm, value)
            for run, row in zip(runs, values, strict=True)
            if (value := reduce(row, statistic))
        }
    )
    if not sequential:
        return _Seen(metric, (one, other), found, _Chance(found.p, sign_flip(pairs, seed=seed)), len(a[0]))
    known = contrast(one, other, at)
    if known is None:
        return _Seen(
            metric, (one, other), found._replace(low=None, high=None, p=None), _Chance(evidence=0.0), len(a[0])
        )
    low, high = confidence_sequence(known)[1:]
    finite = math.isfinite(low) and math.isfinite(high)
    bounds = (math.expm1(low), math.expm1(min(high, 50.0))) if finite else (None, None)
    evidence = e_value_beyond(known, math.log1p(SMALLEST))
    found = found._replace(low=bounds[0], high=bounds[1], p=None)
    return _Seen(metric, (one, other), found, _Chance(evidence=evidence), len(a[0]))


def pair_differences(values: Mapping[int, tuple[str, float]]) -> list[float]:
    """log(B / A) of runs 0 and 1, 2 and 3, ... where a pair has one run of each arm and both values are positive."""
    found = []
    for first in range(0, max(values, default=-1) + 1, 2):
        pair = dict(values[at] for at in (first, first + 1) if at in values)
        if pair.keys() == {"a", "b"} and min(pair.values()) > 0:
            found.append(math.log(pair["b"] / pair["a"]))
    return found


def _adjusted(deciding: Sequence[_Seen], *, sequential: bool) -> dict[str, _Chance]:
    """The metrics that decide with their chances taken together."""
    if sequential:
        together = closed({one.metric.name: one.chance.evidence or 0.0 for one in deciding})
        return {name: _Chance(evidence=evidence) for name, evidence in together.items()}
    p = hochberg({one.metric.name: one.chance.p for one in deciding if one.chance.p is not None})
    turned = hochberg({one.metric.name: q for one in deciding if (q := one.chance.permutation_p) is not None})
    return {one.metric.name: _Chance(p.get(one.metric.name), turned.get(one.metric.name)) for one in deciding}


def _row(seen: _Seen, chance: _Chance, *, sequential: bool) -> ComparisonRow:
    one, other = seen.arms
    found, noise = seen.found, seen.found.noise
    margin = None if noise is None else min(max(noise.repeatability, NARROW), WIDE)
    between = None if noise is None else noise.between_arms(len(one), len(other))
    verdict, because = _row_verdict(seen, chance, between, margin)
    return ComparisonRow(
        metric=seen.metric.name,
        unit=seen.metric.unit,
        a=sum(one) / len(one),
        b=sum(other) / len(other),
        change=found.change,
        low=found.low,
        high=found.high,
        noise=between,
        margin=margin,
        p=chance.p,
        permutation_p=chance.permutation_p,
        evidence=chance.evidence,
        verdict=verdict,
        because=because,
    )


def _row_verdict(seen: _Seen, chance: _Chance, noise: float | None, margin: float | None) -> tuple[RowVerdict, str]:
    metric, change = seen.metric, seen.found
    if change.change is None:
        return "inconclusive", "arm A's value is not above zero, so there is no relative change"
    if change.low is None or change.high is None or noise is None or margin is None:
        if min(map(len, seen.arms)) < 2:
            return "inconclusive", "an arm ran only once, so the noise between runs is unknown"
        if noise is None:
            return "inconclusive", "a run's value is zero, so there is no relative noise"
        if chance.evidence is not None:
            return "inconclusive", "too few runs for an interval that holds at every look"
        needed = MINIMUM[metric.statistic or "mean"]
        return "inconclusive", f"an interval needs {needed} prompts answered in every run, there are {seen.prompts}"
    verdict, because = judged(
        change.change,
        (change.low, change.high),
        higher_is_better=metric.higher_is_better,
        noise=noise,
        margin=margin,
    )
    chances = _may_be_chance(chance) if verdict in ("better", "worse") else None
    return (verdict, because) if chances is None else ("inconclusive", f"{because}, but {chances}")


def _may_be_chance(chance: _Chance) -> str | None:
    """What speaks against a change that its own interval shows; None: nothing."""
    if chance.evidence is not None and chance.evidence < 1 / ALPHA:
        return (
            f"with every look and metric counted the evidence is {chance.evidence:.3g}, and {1 / ALPHA:.0f} is needed"
        )
    if chance.p is not None and chance.p > ALPHA:
        return f"of {len(PRIMARY)} metrics one may look so by chance (p {chance.p:.2f}, Hochberg)"
    if chance.permutation_p is not None and chance.permutation_p > ALPHA:
        return f"turning the arms of the pairs over gives as much by chance (p {chance.permutation_p:.2f}, Hochberg)"
    return None


def judged(
    change: float,
    interval: tuple[float, float],
    *,
    higher_is_better: bool,
    noise: float = 0.0,
    margin: float = WIDE,
) -> tuple[RowVerdict, str]:
    """The rule of a row that has an interval: see `compare_runs`; `noise` 0 where it was not measured."""
    low, high = interval
    if low > SMALLEST or high < -SMALLEST:
        if abs(change) <= noise:
            return "inconclusive", f"two arms of one configuration would differ by up to {share(noise)}"
        better = (change > 0) == higher_is_better
        beyond = " and the change exceeds the noise" if noise else ""
        return ("better" if better else "worse"), f"the interval lies beyond {share(SMALLEST)}{beyond}"
    if max(-low, high) <= margin and abs(change) <= margin / 2:
        return "no difference seen", f"the interval lies within {share(margin)} either way"
    if max(-low, high) <= margin:
        return "inconclusive", f"the interval lies within {share(margin)}, but the change is more than half of that"
    if low > 0 or high < 0:
        return "inconclusive", f"the interval excludes zero and not a change below {share(SMALLEST)}"
    return "inconclusive", f"the interval is too wide: it reaches beyond {share(margin)}"
