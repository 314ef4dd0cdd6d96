"""A against B: effect, interval, noise floor and verdict."""

from __future__ import annotations

from typing import Literal

import msgspec

RowVerdict = Literal["better", "worse", "no difference seen", "inconclusive"]


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of two runs. `change` is b / a - 1; `low` and `high` bound it at 95 % (None: one number only)."""

    metric: str
    unit: str
    a: float | None
    b: float | None
    change: float | None
    low: float | None = None
    high: float | None = None
    noise: float | None = None
    """Relative change between runs of the same arm: what counts as nothing."""
    verdict: RowVerdict
    because: str = ""


class ComparedFile(msgspec.Struct, frozen=True):
    """A result file and the tool whose format it has."""

    file: str
    format: str


class LeftOut(msgspec.Struct, frozen=True):
    """A metric that both files have but that cannot be compared, and why."""

    metric: str
    reason: str


class Compare(msgspec.Struct, frozen=True, kw_only=True):
    """`kvlab compare`."""

    schema: Literal["kvlab/compare@1"] = "kvlab/compare@1"
    a: ComparedFile
    b: ComparedFile
    rows: tuple[ComparisonRow, ...]
    left_out: tuple[LeftOut, ...] = ()
    remarks: tuple[str, ...] = ()
    """What a reader must know before the rows: that both files are one."""
