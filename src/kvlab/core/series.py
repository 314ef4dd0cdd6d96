"""From samples to kvlab's words: which series state a word, and how its label sets combine.

Engines differ in names only; what is done with the samples is here, once. A number that cannot be true (not a number,
below zero, above 2^60) was not seen, and neither is the word that it would have been part of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, pairwise
from typing import Literal

import msgspec

from kvlab.core.exposition import Sample
from kvlab.core.scrape import STARTED_AT, Histogram, possible

Across = Literal["sum", "pools", "largest", "smallest"]
"""How label sets combine. "sum": they add up. "pools": ranks repeat their pool, so the largest of each pool is summed.
"largest" and "smallest": one of them speaks for all."""


class Series(msgspec.Struct, frozen=True):
    """Where an engine states one word. `names`: newest first; the first that is served counts, never two of them.

    A word may have several series, where their names need different labels: the first that states it counts.
    """

    word: str
    names: tuple[str, ...]
    across: Across = "sum"
    only: Mapping[str, str] = {}
    """Labels that a sample must have; a value that ends with * stands for all that begin so."""
    label: str | None = None
    """The number is this label of the sample, not its value."""
    plus: tuple[str, ...] = ()
    """Names whose samples are added; the word is absent when one of them is."""
    needs: str | None = None
    """Another word without which this one says nothing."""


STARTED = Series(STARTED_AT, ("process_start_time_seconds",), across="smallest")
"""The gauge that Prometheus' own clients add."""

_MOST_POOLS = 1024
"""Above what a server has: a page with more is no server's."""
Rows = Sequence[tuple[str, Sample]]
"""Samples with the lines that they were read from."""


class Names:
    """The samples of one page by name. `labels` are those that tell the server's pools apart."""

    def __init__(self, rows: Rows, labels: tuple[str, ...] = ()) -> None:
        self._labels = labels
        self._rows: dict[str, list[tuple[str, Sample]]] = {}
        for line, sample in rows:
            self._rows.setdefault(sample.name, []).append((line, sample))

    def stated(self, series: Iterable[Series]) -> tuple[dict[str, float], dict[str, str]]:
        """The values by word, and the lines that they were read from."""
        values, lines, served = dict[str, float](), dict[str, str](), set[str]()
        for one in series:
            rows = [] if one.word in served else self._of(one)
            served |= {one.word} if rows else set()
            value = self._combined(one, [sample for _, sample in rows])
            if value is not None and (one.needs is None or one.needs in values):
                values[one.word] = value
                lines[one.word] = "\n".join(line for line, _ in rows)
        return values, lines

    def histograms(self, words: Mapping[str, tuple[str, ...]]) -> tuple[dict[str, Histogram], dict[str, str]]:
        """The histograms by word, and the lines that state their sums and counts."""
        found, lines = dict[str, Histogram](), dict[str, str]()
        for word, names in words.items():
            name = next((name for name in names if f"{name}_bucket" in self._rows), None)
            told = None if name is None else self._histogram(name)
            if told is not None:
                found[word] = told
                rows = [row for part in ("_sum", "_count") for row in self._rows.get(f"{name}{part}", ())]
                lines[word] = "\n".join(line for line, _ in rows)
        return found, lines

    def _of(self, one: Series) -> list[tuple[str, Sample]]:
        first = next((rows for name in one.names if (rows := self._selected(name, one.only))), [])
        parts = [first, *(self._selected(name, one.only) for name in one.plus)]
        return [row for part in parts for row in part] if all(parts) else []

    def _selected(self, name: str, only: Mapping[str, str]) -> list[tuple[str, Sample]]:
        rows = self._rows.get(name, [])
        return [row for row in rows if _chosen(row[1].labels, only)] if only else rows

    def _combined(self, one: Series, samples: list[Sample]) -> float | None:
        """None when there is no sample, or one that cannot be true."""
        told = [sample.value if one.label is None else _number(sample.labels.get(one.label, "")) for sample in samples]
        if one.label is not None:
            # "None" and an empty label state nothing; another engine's label may
            told = [value for value in told if not math.isnan(value)]
        if not told or not all(map(possible, told)):
            return None
        if one.across == "largest":
            return max(told)
        if one.across == "smallest":
            return min((value for value in told if value > 0), default=None)
        if one.across == "sum":
            return math.fsum(told)
        pools = dict[tuple[str, ...], float]()
        for sample, value in zip(samples, told, strict=True):
            pool = tuple(sample.labels.get(label, "") for label in self._labels)
            pools[pool] = max(value, pools.get(pool, value))
        return math.fsum(pools.values())

    def _histogram(self, name: str) -> Histogram | None:
        """The label sets added up; None when one of them is no histogram, or they have different bounds."""
        sets = dict[tuple[tuple[str, str], ...], dict[float, float]]()
        for _, sample in self._rows[f"{name}_bucket"]:
            bounds = sets.setdefault(_but_bound(sample), {})
            bound = _number(sample.labels.get("le", ""), infinite=True)
            if bound in bounds:
                return None
            bounds[bound] = sample.value
        counted = {_but_bound(sample): sample.value for _, sample in self._rows.get(f"{name}_count", ())}
        for labels, buckets in sets.items():
            if not _holds(buckets) or not counted.get(labels, math.inf) >= buckets[math.inf]:
                return None
        common, *others = {tuple(sorted(buckets)) for buckets in sets.values()}
        if others:
            return None
        sums = {_but_bound(sample): sample.value for _, sample in self._rows.get(f"{name}_sum", ())}
        stated = [sums.get(labels, math.nan) for labels in sets]
        return Histogram(
            bounds=common,
            counts=tuple(math.fsum(buckets[bound] for buckets in sets.values()) for bound in common),
            sum=math.fsum(stated) if all(map(possible, stated)) else None,
        )


def by_pool(rows: Rows, labels: tuple[str, ...]) -> dict[str, Rows]:
    """The samples of each pool, by its labels' values; empty where the page has fewer than two pools.

    A sample belongs to the pool that its labels leave no choice of. One that fits several states the server.
    """
    keys = {tuple(sample.labels[label] for label in labels): None for _, sample in rows if _has(sample, labels)}
    if not labels or not 2 <= len(keys) <= _MOST_POOLS:
        return {}
    found: dict[tuple[str, ...], list[tuple[str, Sample]]] = {key: [] for key in keys}
    fitting = dict[tuple[bool, ...], dict[tuple[str, ...], tuple[str, ...] | None]]()
    for row in rows:
        given = tuple(label in row[1].labels for label in labels)
        if given not in fitting:
            fitting[given] = _only(keys, given)
        key = fitting[given].get(tuple(row[1].labels[label] for label in compress(labels, given)))
        if key is not None:
            found[key].append(row)
    return {" ".join(f"{label}={value}" for label, value in zip(labels, key, strict=True)): found[key] for key in keys}


def _only(keys: Iterable[tuple[str, ...]], given: tuple[bool, ...]) -> dict[tuple[str, ...], tuple[str, ...] | None]:
    """The pool of each choice of the given labels' values; None where it leaves several."""
    found: dict[tuple[str, ...], tuple[str, ...] | None] = {}
    for key in keys:
        part = tuple(compress(key, given))
        found[part] = None if part in found else key
    return found


def _chosen(labels: Mapping[str, str], only: Mapping[str, str]) -> bool:
    """Whether a sample's labels are those that are asked for."""
    return all(
        labels.get(label, "").startswith(value[:-1]) if value.endswith("*") else labels.get(label) == value
        for label, value in only.items()
    )


def _has(sample: Sample, labels: tuple[str, ...]) -> bool:
    return all(label in sample.labels for label in labels)


def _but_bound(sample: Sample) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(pair for pair in sample.labels.items() if pair[0] != "le"))


def _holds(buckets: Mapping[float, float]) -> bool:
    """Whether the bounds are numbers from 0 up to infinity, and the counts rise with them."""
    if math.inf not in buckets or not all(bound >= 0 for bound in buckets):
        return False
    counts = [buckets[bound] for bound in sorted(buckets)]
    return all(map(possible, counts)) and all(low <= high for low, high in pairwise(counts))


def _number(text: str, infinite: bool = False) -> float:
    """A label that is a number; not a number for any other text."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if infinite or math.isfinite(number) else math.nan
