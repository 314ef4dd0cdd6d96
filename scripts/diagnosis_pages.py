"""Writes docs/diagnoses.md from the pages of the verdicts: python scripts/diagnosis_pages.py."""

from __future__ import annotations

from pathlib import Path

from kvlab.diagnosing import listing
from kvlab.reporting.diagnosis_pages import document

if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs" / "diagnoses.md").write_text(document(listing()), encoding="utf-8")
