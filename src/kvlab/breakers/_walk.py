"""From the start of two texts to where they really part: values that a cause explains are skipped on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvlab.breakers._compare import same
from kvlab.core.breaker import Cause

_ALIKE = 16
"""Characters that must go on alike after a value, if the text does not end there."""
_MOST = 200
"""Values in one text."""


class Slot(NamedTuple):
    """A value: where it begins and ends in the one text and in the other, and which cause explains it."""

    code: str
    mine: tuple[int, int]
    theirs: tuple[int, int]


class Walked(NamedTuple):
    """What was met. `alike`: stretches in common as (place in the one, in the other, length)."""

    slots: list[Slot]
    alike: list[tuple[int, int, int]]
    whole: bool
    """Whether both texts are one to their ends, but for the values."""


def walk(one: str, other: str, causes: Mapping[str, Cause]) -> Walked:
    """Compares two texts; `causes` that skip values, the best first."""
    slots: list[Slot] = []
    alike: list[tuple[int, int, int]] = []
    at = there = 0
    while True:
        length = same(one, at, other, there)
        alike.append((at, there, length))
        at, there = at + length, there + length
        if at == len(one) and there == len(other):
            return Walked(slots, alike, True)
        slot = _slot(one, at, other, there, causes) if len(slots) < _MOST else None
        if slot is None:
            return Walked(slots, alike, False)
        slots.append(slot)
        at, there = slot.mine[1], slot.theirs[1]


def _slot(one: str, at: int, other: str, there: int, causes: Mapping[str, Cause]) -> Slot | None:
    for code, cause in causes.items():
        ends = cause.skip(one, at, other, there) if cause.skip is not None else None
        if ends is None or ends == (at, there):
            continue
        rest = min(len(one) - ends[0], len(other) - ends[1])
        if same(one, ends[0], other, ends[1]) >= min(_ALIKE, rest):
            return Slot(code, (at, ends[0]), (there, ends[1]))
    return None


def placed(walked: Walked, span: tuple[int, int]) -> tuple[int, int] | None:
    """Where a span of the one text lies in the other; None where they have parted before it."""
    for slot in walked.slots:
        if slot.mine[0] <= span[0] <= slot.mine[1]:
            return slot.theirs
    for mine, theirs, length in walked.alike:
        if mine <= span[0] and span[1] <= mine + length:
            return span[0] - mine + theirs, span[1] - mine + theirs
    return None
