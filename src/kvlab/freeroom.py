"""What memory that an engine would leave free could hold, where caches are as large as they are asked for."""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Carved, Deployment, Planner
from kvlab.core.errors import KvlabError
from kvlab.core.plan import LedgerLine, Move
from kvlab.tables import longest

_MOST = 4096
"""More requests at once than any of these engines takes."""


def moves(planner: Planner, deployment: Deployment, carved: Carved, pool: LedgerLine | None) -> tuple[Move, ...]:
    """Moves that cost no quality and that only some engines have: the use of free memory, then the engine's own."""
    own = planner.moves(deployment, carved) if planner.moves is not None else ()
    return (*_free(planner, deployment, carved, pool), *own)


def _free(planner: Planner, deployment: Deployment, carved: Carved, pool: LedgerLine | None) -> tuple[Move, ...]:
    """More requests of the same length, or a longer one, within the low end of the pool: both cost no quality.

    Nothing for an engine that takes all of the pool by itself, and where the user named the pool.
    """
    ask, capacity = deployment.ask, carved.capacity
    if planner.one_request is None or ask.pool_gib is not None or pool is None or capacity is None:
        return ()
    if not _within(carved, pool.low):
        return ()
    found = []
    users = _most_users(planner, deployment, carved, pool.low)
    if users is not None:
        instead = " in place of --parallel" if ask.parallel is not None else ""
        text = (
            f"--users {users} (slots of {carved.context:,} tokens in memory that is free{instead}: no loss of quality)"
        )
        found.append(Move(text, users * carved.context - capacity.tokens))
    native = deployment.model.context
    if ask.context is None and native is not None and carved.context < native:
        tokens = _longest(planner, msgspec.structs.replace(deployment, pool_bytes=max(0, pool.low)), native)
        if tokens > carved.context:
            found.append(Move(f"--context {tokens} (longer requests in memory that is free: no loss of quality)", None))
    return tuple(found)


def _within(carved: Carved, room: int) -> bool:
    """Whether caches, and the buffers that grow with the slots, stay within `room` bytes."""
    taken = sum(line.bytes for line in carved.cache_lines)
    return carved.capacity is not None and max(taken, carved.capacity.pool_bytes) <= room


def _most_users(planner: Planner, deployment: Deployment, carved: Carved, room: int) -> int | None:
    """The most requests of the same length that `room` holds; None when they are no more than now."""

    def holds(users: int) -> bool:
        ask = msgspec.structs.replace(
            deployment.ask, users=users, parallel=None, context=carved.context, kv_unified=None
        )
        try:
            return _within(planner.carve(msgspec.structs.replace(deployment, ask=ask)), room)
        except KvlabError:
            return False  # more slots than the engine has

    assert carved.capacity is not None
    low = now = int(carved.capacity.max_concurrency)
    high = _MOST
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low if low > now else None


def _longest(planner: Planner, deployment: Deployment, most: int) -> int:
    try:
        return longest(planner, deployment, most)
    except KvlabError:
        return 0
