"""Memory that is taken before the cache gets the rest."""

from __future__ import annotations

import msgspec

from kvlab.core.model import Kind


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that the cache cannot have, as a range when it is not known exactly."""

    name: str
    low: int
    bytes: int
    high: int
    kind: Kind
    because: str
