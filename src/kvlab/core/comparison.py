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
    """Relative change that two arms of one configuration stay below in 95 of 100 experiments of this size."""
    margin: float | None = None
    """No difference was seen within this: what two runs of one arm differ by, at least 5 and at most 20 %."""
    p: float | None = None
    """Two-sided p-value of the interval; of the metrics that decide, adjusted for their number (Hochberg)."""
    permutation_p: float | None = None
    """The same by permutation over pairs of runs. None: too few pairs to reach 5 %."""
    evidence: float | None = None
    """The e-value of an experiment that may stop at every look: 20 is what 5 % is otherwise."""
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
