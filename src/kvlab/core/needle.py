"""Facts to find again in a long text, and the question that asks for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import msgspec


class Fact(msgspec.Struct, frozen=True):
    """A sentence, and where in the text it stands: 0 at its start, 1 at its end."""

    text: str
    depth: float


class Hidden(msgspec.Struct, frozen=True, kw_only=True):
    """What one text hides. `asks` is its last line, which an answer continues."""

    facts: tuple[Fact, ...]
    asks: str
    answers: tuple[str, ...]


class Needle(msgspec.Struct, frozen=True, kw_only=True):
    """A way to hide: a file in needles/. Right are the `answers`, all of them, in any order, before any other word of
    their kind."""

    name: str
    title: str
    make: Callable[[Random, float], Hidden]
    """(source of chance, depth) -> facts, of which the one that is asked for stands at that depth."""
    word: re.Pattern[str]
    """What an answer is made of."""
    tokens: int = 24
    """Longest answer."""


def found(needle: Needle, hidden: Hidden, said: str) -> bool:
    """Whether the first different words of the answer are the right ones, as many as there are."""
    words = list(dict.fromkeys(needle.word.findall(said)))
    return set(words[: len(hidden.answers)]) == set(hidden.answers)
