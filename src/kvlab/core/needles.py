"""Plain strings of which a line must hold one before a pattern can match: what makes reading a large log quick."""

from __future__ import annotations

import re
from typing import NamedTuple

SHORTEST = 4
"""Letters below which a literal stands in too many lines to be worth looking for."""
_META = set("^$.|?*+()[]{}\\")
_MAYBE_NONE = frozenset("?*{")
_ESCAPED = frozenset("\"'<>&")
"""JSON around the line writes them in another way."""
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))")
"""The opening of a group that must match; a look around is none."""


def needles(pattern: re.Pattern[str], *, any_case: bool = False) -> tuple[str, ...] | None:
    """Literals of which any text that `pattern` matches holds one; None when they cannot be told.

    An alternative gives its longest run of plain letters outside groups and classes, or what a group in it gives,
    where that is longer. With `any_case`, patterns that ignore the case have some too: compare both in one case.
    """
    if pattern.flags & re.VERBOSE or (pattern.flags & re.IGNORECASE and not any_case):
        return None
    return _of(pattern.pattern)


def _of(text: str) -> tuple[str, ...] | None:
    found: tuple[str, ...] = ()
    for branch in _branches(text):
        parts = _parts(branch)
        longest = max(parts.literals, key=len, default="")
        choices: list[tuple[str, ...]] = [(longest,)] if len(longest) >= SHORTEST else []
        choices += filter(None, map(_of, parts.groups))
        if not choices:
            return None
        found += max(choices, key=lambda held: min(map(len, held)))
    return found


def _skip(text: str, at: int) -> int:
    """The index after the class or group that opens at `at`."""
    if text[at] == "[":
        at += 2 if text[at + 1 : at + 2] == "^" else 1
        at += 1  # a first ] is a member
        while at < len(text) and text[at] != "]":
            at += 2 if text[at] == "\\" else 1
        return at + 1
    at += 1
    while at < len(text) and text[at] != ")":
        if text[at] in "[(":
            at = _skip(text, at)
        else:
            at += 2 if text[at] == "\\" else 1
    return at + 1


def _branches(text: str) -> list[str]:
    branches, start, at = [], 0, 0
    while at < len(text):
        if text[at] == "|":
            branches.append(text[start:at])
            start = at = at + 1
        elif text[at] in "[(":
            at = _skip(text, at)
        else:
            at += 2 if text[at] == "\\" else 1
    return [*branches, text[start:]]


class _Parts(NamedTuple):
    """What a branch must hold: runs of letters, and the insides of its groups."""

    literals: list[str]
    groups: list[str]


def _parts(text: str) -> _Parts:
    parts, run, at = _Parts([], []), "", 0
    while at < len(text):
        letter, after = text[at], at + 1
        if letter == "\\" and after < len(text) and not text[after].isalnum():
            letter, after = text[after], after + 1
        elif letter in _META:
            parts.literals.append(run)
            run = ""
            after = _skip(text, at) if letter in "[(" else at + (2 if letter == "\\" else 1)
            inside = _GROUP.match(text, at)
            if inside and text[after : after + 1] not in _MAYBE_NONE:
                parts.groups.append(text[inside.end() : after - 1])
            at = after
            continue
        if text[after : after + 1] in _MAYBE_NONE or letter in _ESCAPED or not letter.isascii():
            parts.literals.append(run)
            run = ""
        else:
            run += letter
        at = after
    parts.literals.append(run)
    return parts
