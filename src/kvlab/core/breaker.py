"""What keeps prompts from sharing a prefix: the causes that are looked for, and what was found in a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

Skip = Callable[[str, int, str, int], tuple[int, int] | None]
"""(one text, where it differs, the other, where) -> where both go on alike after the cause; None: it is not the cause.
"""


class Cause(NamedTuple):
    """One way in which prompts that mean the same differ: one file of `breakers/`, whose docstring is its page."""

    title: str
    fix: str
    """What to change in the program that writes the prompts."""
    rank: int
    """Of several that would explain a difference, the one with the lowest rank does."""
    skip: Skip | None = None
    """For a value that changes from request to request."""
    normal: Callable[[str], str] | None = None
    """For an order or a form that changes: the text in the one order or form that all would have."""


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """One place of a group of prompts that keeps them from sharing what follows."""

    code: str
    title: str
    where: str
    """The part of the prompt: its tools, or a message."""
    seen: str
    """Two rows of the log that differ there."""
    requests: int
    """That differ there from the group's first."""
    group: int
    """Requests that are alike but for such differences."""
    first_token: int
    """The least position, in tokens of the prompt, at which two of them differ (earlier causes being fixed)."""
    first_block: int
    tokens: int
    """Prompt tokens of the whole log that an endless cache does not hit as long as this one cause is left."""
    fix: str


class Breakers(msgspec.Struct, frozen=True, kw_only=True):
    """What breaks the prefixes of a log with text, the costliest first. Hit rates are those of an endless cache."""

    requests: int
    """That were looked at: the first ones of the log."""
    whole_log: bool
    """Whether those are all."""
    tokens: int
    found: tuple[Breaker, ...]
    hit_tokens: int
    hit_rate: float
    fixed_tokens: int
    """Prompt tokens of the rewritten log."""
    fixed_hit_tokens: int
    fixed_hit_rate: float
    written: str | None = None
    """The file with the rewritten log."""
