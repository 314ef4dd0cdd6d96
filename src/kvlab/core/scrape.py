"""One look at an engine's metrics, and what happened between two looks.

A word that is absent was not seen: it is never zero. Words are listed in `kvlab.core.vocabulary`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.units import MOST

STARTED_AT = "started_at"
"""When the engine's process began, in seconds since 1970, where it says so."""
MOST_SECONDS = 10 * 365 * 86_400.0
"""Longer than a server runs: ten years."""
_FULL = 1.001
"""A ratio of 1, rounded."""


class Percentile(msgspec.Struct, frozen=True, kw_only=True):
    """Where a quantile lies: above `low`, at most `high`, which is infinite in the last bucket."""

    low: float
    high: float
    estimate: float | None
    """Interpolated between the two; None in the last bucket, where `low` is the least that it can be."""


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """A Prometheus histogram: `counts[i]` observations were at most `bounds[i]`; the last bound is infinite."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float | None = None
    """None when the engine does not state it."""

    @property
    def count(self) -> float:
        """Observations, all of them."""
        return self.counts[-1] if self.counts else 0.0

    def mean(self) -> float | None:
        """Sum over count; None without observations or without a sum."""
        return None if self.sum is None or self.count <= 0 else self.sum / self.count

    def percentile(self, share: float) -> Percentile | None:
        """The bucket (low, high] that holds the quantile, and an estimate inside it. None without observations.

        A histogram says no more than the bucket; the first holds its lower end, 0, too. The estimate is that of
        Prometheus' histogram_quantile: observations lie evenly in their bucket. Source:
        https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile. Prometheus gives the
        lower end of the infinite bucket as the quantile; here it is `low`, and there is no estimate.
        """
        # 0.07 of 100 observations is the seventh, not the one after it, which 7.000000000000001 would ask for
        rank = share * self.count * (1 - 1e-12)
        at = next((at for at, count in enumerate(self.counts) if count > 0 and count >= rank), None)
        if at is None:
            return None
        low, before = (self.bounds[at - 1], self.counts[at - 1]) if at else (0.0, 0.0)
        high, inside = self.bounds[at], (rank - before) / (self.counts[at] - before)
        estimate = None if math.isinf(high) else min(high, low + (high - low) * max(0.0, inside))
        return Percentile(low=low, high=high, estimate=estimate)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one scrape says in kvlab's words.

    `values`: gauges, and counters since the engine's start. `histograms`: since the start too. `lines`: word -> the
    sample lines that it was read from, for evidence. `pools`: the same values of each engine (vLLM's `engine` label, an
    SGLang DP rank), where a server has several pools; fields of different pools are never mixed.
    """

    engine: str
    values: Mapping[str, float] = {}
    histograms: Mapping[str, Histogram] = {}
    lines: Mapping[str, str] = {}
    pools: Mapping[str, Mapping[str, float]] = {}


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What happened between two readings of one server, `seconds` apart."""

    first: Reading
    last: Reading
    seconds: float

    @property
    def restarted(self) -> tuple[str, ...]:
        """What shows that the engine was started again in between, or that it is another set of engines.

        Counters that fell, of the server or of one pool; histograms that lost observations; a later start; pools that
        came or went. A restart whose counters have already passed the old values shows in `started_at` alone.
        """
        first, last = self.first, self.last
        fallen = _fallen(first.values, last.values)
        of_pools = [
            f"{word} of {name}"
            for name, values in first.pools.items()
            if name in last.pools
            for word in _fallen(values, last.pools[name])
        ]
        emptied = [
            word
            for word, told in first.histograms.items()
            if word in last.histograms and last.histograms[word].count < told.count
        ]
        moved = ["pools"] if first.pools.keys() != last.pools.keys() else []
        return (*fallen, *of_pools, *emptied, *moved)

    def grown(self, word: str) -> float | None:
        """By how much a counter rose; None when it was not seen at both ends, or the engine was started again."""
        before, after = self.first.values.get(word), self.last.values.get(word)
        if before is None or after is None or self.restarted:
            return None
        return after - before

    def rate(self, word: str) -> float | None:
        """A counter's growth per second."""
        grown = self.grown(word)
        return None if grown is None else grown / self.seconds

    def histogram(self, word: str) -> Histogram | None:
        """The observations made within the window; None as for `grown`, or when the buckets do not match."""
        before, after = self.first.histograms.get(word), self.last.histograms.get(word)
        if before is None or after is None or before.bounds != after.bounds or self.restarted:
            return None
        total = None if before.sum is None or after.sum is None else after.sum - before.sum
        counts = tuple(late - early for early, late in zip(before.counts, after.counts, strict=True))
        if counts[0] < 0 or any(low > high for low, high in pairwise(counts)):
            return None
        return Histogram(bounds=after.bounds, counts=counts, sum=total)


def _fallen(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """Counters that are lower than they were, and a start that is later by more than rounding."""
    words = [word for word, value in before.items() if word.endswith("_total") and after.get(word, math.inf) < value]
    started = after.get(STARTED_AT, -math.inf) - before.get(STARTED_AT, math.inf)
    return [*words, *([STARTED_AT] if started > 1 else [])]


def possible(value: float) -> bool:
    """Whether a number can be a count, a time or a size: from 0 to 2^60."""
    return 0 <= value <= MOST


def believed(values: Mapping[str, float]) -> dict[str, float]:
    """The values that can be true: the possible ones, and of ratios those up to 1. The others were not seen."""
    return {
        word: value
        for word, value in values.items()
        if possible(value) and (value <= _FULL or not word.endswith("_ratio"))
    }


def window(first: Reading, last: Reading, seconds: float) -> Window:
    """The window between two readings. Raises BadInput when they are of two engines, or no time lies between them."""
    if first.engine != last.engine:
        raise BadInput(f"one scrape is {first.engine}'s, the other {last.engine}'s; give two scrapes of one server")
    if not (math.isfinite(seconds) and seconds > 0):
        raise BadInput(f"{seconds:g} s lie between the two scrapes; give the seconds between them with --seconds N")
    return Window(first=first, last=last, seconds=seconds)
