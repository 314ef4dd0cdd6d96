"""Writes docs/causes.md from the pages of the causes: python scripts/cause_pages.py."""

from __future__ import annotations

from pathlib import Path

from kvlab.reporting.cause_pages import document

if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs" / "causes.md").write_text(document(), encoding="utf-8")
