"""docs/metrics.md is what the engines' maps say, and every map keeps to the vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import engines
from kvlab.core.metric_map import MetricMap
from kvlab.reporting.metric_words import document

MAPS = {engines.engine(name).title: engines.metric_map(name) for name in engines.names()}


def test_the_document_is_up_to_date() -> None:
    """python scripts/metric_words.py writes it again."""
    assert (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8") == document(MAPS)


def test_a_word_without_a_meaning_is_refused() -> None:
    with pytest.raises(KeyError, match="vibes_ratio"):
        document({"x": MetricMap(prefix="x", paths=("/metrics",), told={"vibes_ratio": "nowhere"})})


@pytest.mark.parametrize("metrics", MAPS.values(), ids=MAPS)
def test_names_are_the_engines_own(metrics: MetricMap) -> None:
    names = [name for series in metrics.series for name in (*series.names, *series.plus)]
    names += [name for older in metrics.histograms.values() for name in older]
    assert all(name.startswith((metrics.prefix, *metrics.beside)) for name in names)
    stated = {*names, *(series.label for series in metrics.series)}
    assert metrics.versions.keys() <= stated, "a release is stated of a name that nothing reads"
    words = [(series.word, series.names, tuple(series.only)) for series in metrics.series]
    assert len(words) == len(set(words))
    counted = {series.word for series in metrics.series if series.names[0].endswith("_total")}
    assert all(word.endswith("_total") for word in counted)
