"""A page in a real Chromium that can reach nothing."""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path

import pytest

_CHROMIUM = Path("/usr/bin/chromium")
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
)  # fmt: skip


def opened(page: Path, folder: Path, *options: str) -> str:
    """Opens the page with the options, its profile in `folder`; what the browser wrote to stderr."""
    if not _CHROMIUM.exists():
        pytest.fail(f"{_CHROMIUM} is missing: apt-get install chromium")
    argv = [str(_CHROMIUM), *_OPTIONS, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True).stderr


def first_pixel(png: bytes) -> tuple[int, int, int]:
    """Colour of the upper left corner; every PNG filter leaves the first pixel of the first row as it is."""
    start = png.index(b"IDAT") + 4
    raw = zlib.decompressobj().decompress(png[start:], 8)
    return raw[1], raw[2], raw[3]
