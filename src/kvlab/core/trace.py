"""A workload as columns: when requests came, how long they were, and the blocks that their prompts are made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kvlab.core.model import Doubt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Ids = NDArray[np.int32] | NDArray[np.int64]


MOST_SHOWN = 5
"""Rows that were left out and are named; the others are counted."""


class BadRow(msgspec.Struct, frozen=True):
    """A row that was left out: where it stands, and why."""

    where: str
    why: str


class LeftOutRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that could not be used: how many, and the first few."""

    count: int = 0
    first: tuple[BadRow, ...] = ()


class Blocks(NamedTuple):
    """Prompts as runs of blocks of `size` tokens: equal ids mean equal tokens up to and including that block.

    Ids lie from 0 to below `bound`. Request r holds ids[offsets[r]:offsets[r + 1]]; `last_short[r]` tokens lack of a
    full last block.
    """

    ids: Ids
    offsets: Ints
    bound: int
    size: int
    last_short: Ints
    own: bool = False
    """Whether ids mean something only within their file."""


class Trace(NamedTuple):
    """Requests in the order in which they came. `arrivals`: seconds on the file's clock; None where it has none."""

    format: str
    inputs: Ints
    """Prompt tokens of each request."""
    outputs: Ints | None
    arrivals: Floats | None
    blocks: Blocks | None
    left_out: LeftOutRows
    clock_jumps: int = 0
    """Rows whose time lies before that of the row above."""
    doubts: tuple[Doubt, ...] = ()


class TraceReader(NamedTuple):
    """A format of trace files: one file in `traces/`."""

    title: str
    recognises: Callable[[str], bool]
    """Whether a file that begins with this text (its first line, at most 64 KiB of it) has the format."""
    read: Callable[[Path], Trace]
    """Raises BadInput when no row of the file can be used."""
