"""Writes docs/metrics.md from the engines' maps: python scripts/metric_words.py."""

from __future__ import annotations

from pathlib import Path

from kvlab import engines
from kvlab.reporting.metric_words import document

if __name__ == "__main__":
    maps = {engines.engine(name).title: engines.metric_map(name) for name in engines.names()}
    (Path(__file__).parents[1] / "docs" / "metrics.md").write_text(document(maps), encoding="utf-8")
