"""What a move looks at, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvlab.core.breaker import Breakers
from kvlab.core.concurrency import Concurrency
from kvlab.core.traffic import ContextLimit, CurvePoint, Lengths, Reuse
from kvlab.core.units import size

NEARLY_ALL = 0.9
"""Share of the hits of an endless cache from which a smaller one is enough."""
WORTH = 0.05
"""Share of the prompt tokens from which a move is worth naming."""


class Seen(NamedTuple):
    """A trace in numbers."""

    prompts: Lengths
    limit: ContextLimit
    reuse: Reuse | None
    breakers: Breakers | None = None
    pool: int | None = None
    """Blocks of the cache that serves this traffic, where it was told."""
    at_once: Concurrency | None = None


class Advice(NamedTuple):
    """A move that applies. `saves`: share of the prompt tokens that need not be computed; None: it is about memory."""

    do: str
    gain: str
    because: str
    saves: float | None = None


class Move(NamedTuple):
    """One file of this folder."""

    look: Callable[[Seen], Advice | None]
    """None when it does not apply."""
    free: bool = False
    """Whether it is a setting that costs nothing."""


def point_at(reuse: Reuse, blocks: int) -> CurvePoint:
    """The curve's largest point of at most so many blocks; its first where all are larger."""
    return max((at for at in reuse.curve if at.capacity_blocks <= blocks), key=_blocks, default=reuse.curve[0])


def knee(reuse: Reuse) -> CurvePoint:
    """The smallest cache on the curve that hits nearly all that an endless one does."""
    return next((at for at in reuse.curve if at.hit_tokens >= NEARLY_ALL * reuse.ideal.hit_tokens), reuse.curve[-1])


def capacity(point: CurvePoint) -> str:
    """A cache's size in words."""
    amount = "" if point.capacity_bytes is None else f" ({size(point.capacity_bytes)})"
    return f"{point.capacity_tokens:,} tokens{amount}"


def _blocks(point: CurvePoint) -> int:
    return point.capacity_blocks
