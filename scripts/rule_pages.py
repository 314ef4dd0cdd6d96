"""Writes docs/rules.md from the pages of the rules: python scripts/rule_pages.py."""

from __future__ import annotations

from pathlib import Path

from kvlab.reporting.rule_pages import document
from kvlab.symptoms import listing

if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs" / "rules.md").write_text(document(listing().rules), encoding="utf-8")
