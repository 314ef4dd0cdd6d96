"""An engine's own metric names -> kvlab's words: the type of every engine folder's metrics.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kvlab.core.errors import BadInput, shortened
from kvlab.core.exposition import Sample, rows
from kvlab.core.scrape import Reading, believed
from kvlab.core.series import STARTED, Names, Series, by_pool


class MetricMap(msgspec.Struct, frozen=True, kw_only=True):
    """metrics.py: the engine's own metric names -> kvlab's words.

    A word whose metric is absent is absent, never zero. The words, with their units: `kvlab.core.vocabulary`.
    """

    prefix: str
    """What the names of the engine's own series begin with."""
    beside: tuple[str, ...] = ()
    """What the names of others begin with that write to the engine's page (LMCache)."""
    paths: tuple[str, ...]
    """The pages that are polled; the first is Prometheus text where `series` is not empty."""
    info_paths: tuple[str, ...] = ()
    """Pages about the server itself, asked once and not polled: the first of them that answers."""
    series: tuple[Series, ...] = ()
    histograms: Mapping[str, tuple[str, ...]] = {}
    """Word -> the engine's names, newest first."""
    pools: tuple[str, ...] = ()
    """Labels that tell the pools of one server apart."""
    more: Callable[[Mapping[str, str], Mapping[str, float]], Mapping[str, float]] | None = None
    """(pages, values of `series`) -> all values, where other pages or several series state a word."""
    told: Mapping[str, str] = {}
    """Word -> what `more` reads it from, in words."""
    versions: Mapping[str, str] = {}
    """Name of a series -> the releases that serve it, where not all do."""

    def read(self, pages: Mapping[str, str]) -> dict[str, float]:
        """Texts by path ("/metrics", "/slots") -> values by word. Raises BadInput when a page is not what it is."""
        return self._values(pages, Names(self._rows(pages), self.pools))[0]

    def reading(self, engine: str, pages: Mapping[str, str]) -> Reading:
        """All that the pages say. Raises BadInput as `read` does."""
        rows = self._rows(pages)
        names = Names(rows, self.pools)
        values, lines = self._values(pages, names)
        histograms, sums = names.histograms(self.histograms)
        return Reading(
            engine=engine,
            values=values,
            histograms=histograms,
            lines={**lines, **sums},
            pools={
                name: self._values({}, Names(of_pool, self.pools))[0]
                for name, of_pool in by_pool(rows, self.pools).items()
            },
        )

    def _rows(self, pages: Mapping[str, str]) -> list[tuple[str, Sample]]:
        """Raises BadInput where the page states one of the engine's series twice: two pages were put together."""
        found = rows(pages[self.paths[0]]) if self.series and self.paths[0] in pages else []
        told = set[tuple[object, ...]]()
        for line, sample in found:
            key = (sample.name, *sorted(sample.labels.items()))
            if key in told and sample.name.startswith((self.prefix, *self.beside)):
                raise BadInput(
                    f"the page states {shortened(line.rpartition(' ')[0])} twice, which no engine does; give one page"
                )
            told.add(key)
        return found

    def _values(self, pages: Mapping[str, str], names: Names) -> tuple[dict[str, float], dict[str, str]]:
        stated, lines = names.stated((*self.series, STARTED))
        values = believed(stated if self.more is None else self.more(pages, stated))
        return values, {word: lines.get(word) or self.told.get(word, "") for word in values}
