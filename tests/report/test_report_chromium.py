"""The page in a real browser: nothing is refused or fetched, and it follows the reader's colour scheme."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import first_pixel, opened
from hostile import hostile
from sample import record

from kvlab.core.record import Record
from kvlab.reporting import html

pytestmark = pytest.mark.e2e


def browse(record: Record, folder: Path, *options: str) -> str:
    """Open the report of `record` with the options; returns what the browser wrote to stderr."""
    return opened(html.write_report(record, folder), folder, *options)


@pytest.mark.parametrize(("scheme", "corner"), [("1", (0xFE, 0xFE, 0xFD)), ("0", (0x13, 0x17, 0x1D))])
def test_the_page_follows_the_colour_scheme(scheme: str, corner: tuple[int, int, int], tmp_path: Path) -> None:
    image = tmp_path / "page.png"
    said = browse(
        record(), tmp_path, f"--screenshot={image}", "--window-size=1200,2000",
        f"--blink-settings=preferredColorScheme={scheme}",
    )  # fmt: skip
    assert first_pixel(image.read_bytes()) == corner
    assert "CONSOLE" not in said


def test_a_hostile_record_makes_the_browser_do_nothing(tmp_path: Path) -> None:
    # A script, a handler or a fetch would be refused by the page's own policy, and the refusal logged.
    said = browse(hostile(), tmp_path, f"--print-to-pdf={tmp_path / 'page.pdf'}")
    assert "CONSOLE" not in said
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
