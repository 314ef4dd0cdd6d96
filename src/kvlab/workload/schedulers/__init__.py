"""Engines whose scheduler is simulated: one a file of this folder. The file's name is the engine's, its docstring its
page."""

from __future__ import annotations

from functools import cache

from kvlab import variants
from kvlab.core.errors import BadInput, nearest
from kvlab.workload.schedulers._rule import Scheduler

__all__ = ["PARTS", "Scheduler", "known", "page", "scheduler"]

PARTS = ("Admits", "Full pool", "Assumed", "Checked", "Source")
"""Paragraphs of a page."""


@cache
def known() -> dict[str, Scheduler]:
    """Every scheduler by its engine's name, sorted."""
    return variants.collected(__name__, Scheduler)


def scheduler(engine: str) -> Scheduler:
    """The engine's. Raises BadInput for one that is not simulated."""
    if engine not in known():
        raise BadInput(f"the scheduler of {engine!r} is not simulated; {nearest(engine, known())}")
    return known()[engine]


def page(engine: str) -> tuple[str, dict[str, str]]:
    """The title of an engine's page and its paragraphs, by `PARTS`."""
    return variants.written(f"{__name__}.{engine}", PARTS)
