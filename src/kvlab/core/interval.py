"""A value with its 95 % interval."""

from __future__ import annotations

import msgspec


class Interval(msgspec.Struct, frozen=True):
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float
