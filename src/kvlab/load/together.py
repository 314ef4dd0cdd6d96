"""Many small requests to a server, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from kvlab.load.clock import first_error

T = TypeVar("T")
_AT_ONCE = 8


async def together(
    make: Callable[[int], Coroutine[None, None, T]], count: int, done: Callable[[int], None]
) -> tuple[T, ...]:
    """`make(0)` to `make(count - 1)`, some at a time."""
    found: dict[int, T] = {}
    waiting = iter(range(count))

    async def worker() -> None:
        for index in waiting:
            found[index] = await make(index)
            done(len(found))

    async with first_error(), asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(worker())
    return tuple(found[index] for index in range(count))
