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


def known_by(*patterns: re.Pattern[str]) -> Skip:
    """Skips a value that a pattern finds at the same place of both texts: its group "value", or all of it.

    Of several patterns the first one that finds a value tells where it ends.
    """

    def skip(one: str, at: int, other: str, there: int) -> tuple[int, int] | None:
        tried = (_ends(pattern, one, at, other, there) for pattern in patterns)
        return next((ends for ends in tried if ends is not None), None)

    return skip


def _ends(pattern: re.Pattern[str], one: str, at: int, other: str, there: int) -> tuple[int, int] | None:
    mine = _spans(pattern, one, at)
    if not mine:
        return None
    theirs = {there - begin: end for begin, end in _spans(pattern, other, there)}
    return max(((end, theirs[at - begin]) for begin, end in mine if at - begin in theirs), default=None)


def _spans(pattern: re.Pattern[str], text: str, at: int) -> list[tuple[int, int]]:
    """Values around the place: from where to where."""
    group = "value" if "value" in pattern.groupindex else 0
    window = text[max(0, at - _BEFORE) : at + _AFTER]
    shift = max(0, at - _BEFORE)
    spans = [found.span(group) for found in pattern.finditer(window)]
    return [(begin + shift, end + shift) for begin, end in spans if begin + shift <= at <= end + shift and end > begin]
