"""Requests at once, from when they came and how long they are served, beside what a pool holds."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvlab.core.speed import Range

Verdict = Literal["enough", "short", "depends on the speed"]
"""Whether the pool leaves what is wanted at the peak: at both ends of the speed, at neither, at one."""

GapCode = Literal["smaller_dtype", "context_limit", "shorter_prompts", "more_memory"]


class GapMove(msgspec.Struct, frozen=True, kw_only=True):
    """One way to have as much to spare as is wanted. They stand in the order of what they cost."""

    code: GapCode
    do: str
    holds: float
    """Requests of the mean length that the pool then holds."""
    needs: float
    """Requests that it must hold then, with what is to be spared."""
    closes: bool


class Concurrency(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that are served at a time, none of them waiting. Ranges lie between the fast and the slow speed."""

    service: Literal["measured", "stated", "estimated"]
    """How long a request is served: as the log says, by speeds that were given, or by those of a plan."""
    service_seconds: Range
    """Mean over requests."""
    mean: Range
    p99: Range
    """Not exceeded in 99 % of the time."""
    peak: Range
    tokens_per_request: float
    """Prompt and answer, mean over requests."""
    pool_tokens: int | None
    """None: no pool is known, and what follows is None or empty."""
    pool_bytes: int | None
    holds: float | None
    """Requests of the mean length that the pool holds."""
    spare: Range | None
    """Share of the pool that is left at the peak; below 0 where it is too small."""
    wanted_spare: float
    verdict: Verdict | None
    missing_tokens: int | None
    """What the pool lacks at the slow end for the peak and what is to be spared; 0: nothing."""
    moves: tuple[GapMove, ...]
    """Empty where nothing is missing."""
    cheapest: str | None
    """The code of the first move that closes the gap."""
    definition: str
