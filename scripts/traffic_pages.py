"""Writes docs/traffic.md from the readers, breakers and moves of kvlab traffic: python scripts/traffic_pages.py."""

from __future__ import annotations

from pathlib import Path

from kvlab.reporting.traffic_pages import document

if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs" / "traffic.md").write_text(document(), encoding="utf-8")
