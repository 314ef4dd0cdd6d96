"""What is said of the requests at once, the same on a terminal and on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlab.core.units import seconds, size
from kvlab.reporting import words

if TYPE_CHECKING:
    from kvlab.core.concurrency import Concurrency
    from kvlab.core.model import Kind
    from kvlab.core.speed import Range
    from kvlab.core.traffic import ContextLimit


_TIMES = 10
"""A use of the pool from here on is told as a multiple."""


def kind(value: Concurrency) -> Kind:
    """A plan's speed is an estimate, a log's times and given speeds are computed with."""
    return "estimated" if value.service == "estimated" else "computed"


def line(value: Concurrency) -> str:
    """Mean, p99 and peak, and how long a request is served."""
    service = _between(seconds(value.service_seconds.low), seconds(value.service_seconds.high))
    return (
        f"{_range(value.mean, 1)} requests at once in the mean, {_range(value.p99)} at p99,"
        f" {_range(value.peak)} at the peak; served in {service} in the mean ({value.service})"
    )


def pool_line(value: Concurrency) -> str | None:
    """What the pool has to spare; None where no pool is known."""
    if value.holds is None or value.spare is None or value.pool_tokens is None:
        return None
    memory = "" if value.pool_bytes is None else f" ({size(value.pool_bytes)})"
    used = _of_it(1 - value.spare.high, 1 - value.spare.low)
    text = (
        f"the pool of {value.pool_tokens:,} tokens{memory} holds {value.holds:,.1f} requests of the mean length"
        f" ({value.tokens_per_request:,.0f} tokens): the peak takes {used} it, and {words.share(value.wanted_spare)}"
        " are to be spared"
    )
    return f"{text}; {value.missing_tokens:,} tokens are missing" if value.missing_tokens else text


def rows(value: Concurrency) -> list[tuple[str, str, str, str]]:
    """Each move that could close the gap: what, what the pool then holds, what it must, whether that is enough."""
    return [
        (
            move.do,
            f"{move.holds:,.1f}",
            f"{move.needs:,.1f}",
            "yes" if move.closes else "no",
        )
        for move in value.moves
    ]


def freed(limit: ContextLimit) -> str | None:
    """What the limit frees of the longest request that is allowed now; None where that is not known."""
    if limit.model_context is None or limit.freed_share is None:
        return None
    if not limit.freed_share:
        return f"the model, or its plan, allows {limit.model_context:,} tokens a request: no more than that limit"
    memory = "" if limit.freed_bytes is None else f" ({size(limit.freed_bytes)})"
    return (
        f"a request at that limit takes {words.share(limit.freed_share)}{memory} less of the cache than one of the"
        f" {limit.model_context:,} tokens that the model, or its plan, allows"
    )


def _of_it(low: float, high: float) -> str:
    if high < _TIMES:
        return f"{_between(words.share(low), words.share(high))} of"
    return f"{_between(f'{low:,.1f}', f'{high:,.1f}')} times"


def _range(value: Range, digits: int = 0) -> str:
    return _between(f"{value.low:,.{digits}f}", f"{value.high:,.{digits}f}")


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
