"""Python's own notation of settings in a line of a log: `{'a': 1, 'b': X(c=2)}`, `X(a=1, b='text')`, `a=1, b=None`."""

from __future__ import annotations

import re

_KEY = re.compile(r"\s*(?:'(\w+)'\s*:|\"(\w+)\"\s*:|(\w+)\s*=)\s*")
_OPEN, _CLOSE = "([{", ")]}"
_MOST = 1 << 16
"""Characters that are looked at: a printed configuration has some thousands."""

Literal = str | int | float | bool | None


def pairs(text: str, start: int = 0) -> dict[str, str]:
    """Names and values, as written, of the list that begins at `start`, up to the bracket that closes it.

    A value that the end of the line cuts is left out, and so is the last of a list without brackets: it may be cut.
    """
    found: dict[str, str] = {}
    at, limit = start, min(len(text), start + _MOST)
    while key := _KEY.match(text, at, limit):
        end = _end(text, key.end(), limit)
        if end is None:
            break
        found[key[1] or key[2] or key[3]] = text[key.end() : end].strip()
        if text[end] != ",":
            break
        at = end + 1
    return found


def _end(text: str, at: int, limit: int) -> int | None:
    """Where a value ends: at the comma or the closing bracket of its list; None when the line ends before."""
    depth, quote = 0, ""
    while at < limit:
        letter = text[at]
        if quote:
            if letter == "\\":
                at += 1
            elif letter == quote:
                quote = ""
        elif letter in "'\"":
            quote = letter
        elif letter in _OPEN:
            depth += 1
        elif depth == 0 and (letter == "," or letter in _CLOSE):
            return at
        elif letter in _CLOSE:
            depth -= 1
        at += 1
    return None


def literal(text: str) -> Literal:
    """The value of what Python wrote: a number, a truth, None, or text (without its quotes)."""
    plain: dict[str, Literal] = {"None": None, "True": True, "False": False}
    if text in plain:
        return plain[text]
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
