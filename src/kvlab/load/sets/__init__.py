"""Data sets: one file each, found by its `DataSet` value."""

from __future__ import annotations

from functools import cache

import msgspec

from kvlab import variants
from kvlab.load.making import DataSet


@cache
def all_sets() -> dict[type[msgspec.Struct], DataSet]:
    """Every data set by the type that describes it."""
    return {one.kind: one for one in variants.collected(__name__, DataSet).values()}


def maker(dataset: msgspec.Struct) -> DataSet:
    """The data set that makes what `dataset` describes."""
    return all_sets()[type(dataset)]
