"""The scripts of benchmarks/, whose figures tests hold to the documents."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark() -> Callable[[str], ModuleType]:
    """Imports a script by its name."""

    def imported(name: str) -> ModuleType:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
            return importlib.import_module(name)

    return imported
