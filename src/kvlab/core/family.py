"""What a file in families/ holds: how one shape of cache is recognised in a config, and read from it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kvlab.core.config import Config
from kvlab.core.layout import Layout
from kvlab.core.model import Doubt


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A shape of cache. Both functions are given the config of the language model.

    `claims` looks for the keys that set the shape apart and must not raise. `layout` raises MissingFact, BadInput or
    UnknownModel when the config does not say enough.
    """

    name: str
    claims: Callable[[Config], bool]
    layout: Callable[[Config], Layout]


class Understood(msgspec.Struct, frozen=True, kw_only=True):
    """A config read by the family that claimed it."""

    family: str
    layout: Layout
    doubts: tuple[Doubt, ...]
