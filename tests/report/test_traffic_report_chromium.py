"""The page of a workload in a real browser: it follows the colour scheme, and a hostile one does nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import first_pixel, opened
from workload_sample import conversation, hostile_workload

from kvlab.reporting.traffic_page import write_traffic

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(("scheme", "corner"), [("1", (0xFE, 0xFE, 0xFD)), ("0", (0x13, 0x17, 0x1D))])
def test_the_page_follows_the_colour_scheme(scheme: str, corner: tuple[int, int, int], tmp_path: Path) -> None:
    image = tmp_path / "page.png"
    said = opened(
        write_traffic(conversation(), tmp_path), tmp_path, f"--screenshot={image}", "--window-size=1200,2000",
        f"--blink-settings=preferredColorScheme={scheme}",
    )  # fmt: skip
    assert first_pixel(image.read_bytes()) == corner
    assert "CONSOLE" not in said


def test_a_hostile_workload_makes_the_browser_do_nothing(tmp_path: Path) -> None:
    # A script, a handler or a fetch would be refused by the page's own policy, and the refusal logged.
    page = write_traffic(hostile_workload(tmp_path), tmp_path)
    said = opened(page, tmp_path, f"--print-to-pdf={tmp_path / 'page.pdf'}")
    assert "CONSOLE" not in said
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
