"""docs/results.md names every format that is read."""

from __future__ import annotations

from pathlib import Path

from kvlab.readers import readers

PAGE = (Path(__file__).parents[2] / "docs" / "results.md").read_text().lower()


def test_every_format_has_its_row() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(readers())
    for reader in readers():
        assert any(reader.name.split("-bench")[0] in row.split("|")[1] for row in rows), reader.name
