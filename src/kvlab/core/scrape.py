"""One look at an engine's metrics, and what happened between two looks.

A word that is absent was not seen: it is never zero. Words are listed in `kvlab.core.engine.MetricMap`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from kvlab.core.errors import BadInput

MOST = float(1 << 60)
"""Above any count, time or size that an engine states."""
_FULL = 1.001
"""A ratio of 1, rounded."""


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

    def quantile(self, share: float) -> tuple[float, float] | None:
        """The bucket (low, high] that holds the quantile; `high` is infinite in the last. None without observations.

        A histogram says no more than that: a number between the two is an interpolation.
        """
        if self.count <= 0:
            return None
        at = next((i for i, count in enumerate(self.counts) if count >= share * self.count), len(self.counts) - 1)
        return (self.bounds[at - 1] if at else 0.0, self.bounds[at])


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
        """Counters that fell, or histograms that lost observations: the engine was started again in between."""
        words = [
            word
            for word, value in self.first.values.items()
            if word.endswith("_total") and self.last.values.get(word, math.inf) < value
        ]
        return (
            *words,
            *(
                word
                for word, told in self.first.histograms.items()
                if word in self.last.histograms and self.last.histograms[word].count < told.count
            ),
        )

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
        """The observations made within the window; None as for `grown`, or when the buckets changed."""
        before, after = self.first.histograms.get(word), self.last.histograms.get(word)
        if before is None or after is None or before.bounds != after.bounds or self.restarted:
            return None
        total = None if before.sum is None or after.sum is None else after.sum - before.sum
        counts = tuple(late - early for early, late in zip(before.counts, after.counts, strict=True))
        return Histogram(bounds=after.bounds, counts=counts, sum=total)


def believed(values: Mapping[str, float]) -> dict[str, float]:
    """The values that can be true: from 0 to 2^60, and ratios to 1. The others were not seen."""
    return {word: value for word, value in values.items() if 0 <= value <= (_FULL if word.endswith("_ratio") else MOST)}


def window(first: Reading, last: Reading, seconds: float) -> Window:
    """The window between two readings. Raises BadInput when they are of two engines, or no time lies between them."""
    if first.engine != last.engine:
        raise BadInput(f"one scrape is {first.engine}'s, the other {last.engine}'s; give two scrapes of one server")
    if not (math.isfinite(seconds) and seconds > 0):
        raise BadInput(f"{seconds:g} s lie between the two scrapes; give the seconds between them with --seconds N")
    return Window(first=first, last=last, seconds=seconds)
