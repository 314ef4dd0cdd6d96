"""Expected speed as values: every number an estimate between two ends."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvlab.core.model import Doubt


class Range(msgspec.Struct, frozen=True):
    """An estimate: the slow and the fast end, or the small and the large one."""

    low: float
    high: float


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Decoding at one batch size, all requests at the planned context."""

    batch: int
    """Requests that one replica decodes together."""
    tokens_per_second_each: Range
    tokens_per_second: Range
    """All requests of all replicas together."""
    limited_by: Literal["bandwidth", "compute"]
    """What takes longer in the middle of the ranges."""


class Prefill(msgspec.Struct, frozen=True, kw_only=True):
    """Reading one prompt alone, nothing of it cached and nobody waiting."""

    tokens: int
    ttft: Range
    tokens_per_second: Range


class Turn(msgspec.Struct, frozen=True):
    """The batch of one replica from which decoding is bound by compute and no longer by bandwidth."""

    earliest: int
    latest: int | None
    """None: at the other ends of the ranges it never is."""


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Every number is an estimate between its ends; what could not be estimated is absent, and a doubt says why."""

    kind: Literal["estimated"] = "estimated"
    context: int
    active_parameters: int | None
    decode: tuple[Pace, ...] = ()
    prefill: Prefill | None = None
    compute_bound_from: Turn | None = None
    """None: never at this context, because each request's cache takes longer to read than its token to compute."""
    because: tuple[str, ...] = ()
    """Where the shares of the rates come from."""
    doubts: tuple[Doubt, ...] = ()
