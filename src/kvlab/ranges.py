"""What the range of an estimated pool does to a plan: expectations with both ends, and a doubt where they disagree."""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Carved
from kvlab.core.model import Doubt
from kvlab.core.plan import Ask, Expected, LedgerLine
from kvlab.core.units import size
from kvlab.tables import over

Ends = tuple[Carved, Carved]
"""A deployment carved at the low and at the high end of its pool."""


def doubt(pool: LedgerLine | None, carved: Carved, ends: Ends | None, ask: Ask, most: int | None) -> tuple[Doubt, ...]:
    """A pool that is only estimated, when an end of its range changes the answer for one request or for the users.

    `most` is what one replica's scheduler runs together; None: as many as the cache holds.
    """
    if pool is None or ends is None or carved.capacity is None:
        return ()

    def holds(found: Carved, room: int, users: int) -> bool:
        if found.capacity is None or found.capacity.longest_request_tokens < carved.context:
            return False
        run = found.capacity.max_concurrency if most is None else min(found.capacity.max_concurrency, most)
        return not over(found, max(0, room)) and run * ask.dp >= users

    def differs(users: int) -> bool:
        at_low, at_high = holds(ends[0], pool.low, users), holds(ends[1], pool.high, users)
        return not holds(carved, pool.bytes, users) == at_low == at_high

    if not differs(0) and not differs(ask.users or 0):
        return ()
    what = f"{carved.context:,} tokens fit" if differs(0) else f"{ask.users:,} users fit"
    text = (
        f"the pool is an estimate between {size(max(0, pool.low))} and {size(pool.high)}: {what}"
        " at one end and not at the other; kvlab check --learn of a first start tells"
    )
    return (Doubt("pool", text),)


def expects(pool: LedgerLine | None, carved: Carved, ends: Ends | None) -> tuple[Expected, ...]:
    """What the log will say. Numbers that follow from an estimated pool are expected anywhere within its range.

    An engine calls what follows from the ledger estimated; where every line of it was given, the number is computed.
    """
    if ends is not None:
        others = [other for end in ends for other in end.expects]
        return tuple(_ranged(row, others) for row in carved.expects)
    if pool is None:
        return carved.expects
    return tuple(
        msgspec.structs.replace(row, kind="computed") if row.kind == "estimated" and row.low is None else row
        for row in carved.expects
    )


def _ranged(row: Expected, others: list[Expected]) -> Expected:
    """`row` with the range that the same row has at the ends of the pool's."""
    value = row.value
    found = [other.value for other in others if other.name == row.name and not isinstance(other.value, str)]
    if isinstance(value, str) or all(other == value for other in found):
        return row
    low, high = min(value, *found), max(value, *found)
    spread = max(high - value, value - low)
    return msgspec.structs.replace(row, tolerance=row.tolerance + spread, kind="estimated", low=low, high=high)
