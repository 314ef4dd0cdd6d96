"""Two texts side by side: how far they are the same, and values in them that patterns know."""

from __future__ import annotations

import re

from kvlab.core.breaker import Skip

_BEFORE, _AFTER = 120, 160
"""Characters around a difference in which a pattern is looked for."""


def same(one: str, at: int, other: str, there: int) -> int:
    """Characters that two texts have in common from these places on."""
    most = min(len(one) - at, len(other) - there)
    low, step = 0, 64
    while low < most:
        step = min(step, most - low)
        if one[at + low : at + low + step] == other[there + low : there + low + step]:
            low += step
            step *= 2
        elif step == 1:
            break
        else:
            step = max(1, step // 4)
    return low


def known_by(pattern: re.Pattern[str]) -> Skip:
    """Skips a value that the pattern finds at the same place of both texts: its group "value", or all of it."""
    group = "value" if "value" in pattern.groupindex else 0

    def skip(one: str, at: int, other: str, there: int) -> tuple[int, int] | None:
        mine = _spans(pattern, group, one, at)
        if not mine:
            return None
        theirs = {there - begin: end for begin, end in _spans(pattern, group, other, there)}
        ends = [(end, theirs[at - begin]) for begin, end in mine if at - begin in theirs]
        return max(ends) if ends else None

    return skip


def _spans(pattern: re.Pattern[str], group: str | int, text: str, at: int) -> list[tuple[int, int]]:
    """Values around the place: from where to where."""
    window = text[max(0, at - _BEFORE) : at + _AFTER]
    shift = max(0, at - _BEFORE)
    spans = [found.span(group) for found in pattern.finditer(window)]
    return [(begin + shift, end + shift) for begin, end in spans if begin + shift <= at <= end + shift and end > begin]
