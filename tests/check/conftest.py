"""What a check may learn stays with its test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calibration file of this test."""
    path = tmp_path / "calibration.json"
    monkeypatch.setenv("KVLAB_CALIBRATION", str(path))
    return path
