"""Recorded labs, each copied so that a test may change it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "keep"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A finished lab with answers; no log of the engine is in it."""
    return Path(shutil.copytree(GOLDEN / "lab", tmp_path / "lab"))


@pytest.fixture
def first_lab(tmp_path: Path) -> Path:
    """A finished lab of the first kvlab that could run one."""
    return Path(shutil.copytree(GOLDEN / "first-lab", tmp_path / "first-lab"))
