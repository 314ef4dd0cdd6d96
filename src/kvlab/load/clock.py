"""The event loop: when data arrived rather than when a coroutine got round to it, and errors of task groups."""

from __future__ import annotations

import asyncio
import select
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, TypeVar

from kvlab.core.errors import KvlabError

T = TypeVar("T")
_FINE_SECONDS = 1.0
_SELECT_LIMIT = 1024


class ArrivalSelector(selectors.DefaultSelector):
    """A selector that remembers when it last reported readable sockets.

    asyncio takes data off the sockets in the same turn of its loop, and wakes the coroutines that wait for it in the
    next one. So `arrival` read by a woken coroutine is the moment at which its data was known to be there, whatever
    else the loop had to do in between: with 64 streams in step that is some milliseconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turn = self._turn_before = perf_counter()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, as any selector does, but not longer than `timeout` seconds to the microsecond.

        epoll counts in whole milliseconds, which would make every request of an open loop half of one late.
        """
        if timeout is not None and 0 < timeout < _FINE_SECONDS and self.fileno() < _SELECT_LIMIT:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        events = super().select(timeout)
        self._turn_before = self._turn
        self._turn = perf_counter()
        return events

    def arrival(self) -> float:
        """A `perf_counter` reading: when the data that a coroutine was just woken for had arrived."""
        return self._turn_before


def run(main: Callable[[Callable[[], float]], Coroutine[Any, Any, T]]) -> T:
    """`asyncio.run` of `main(arrival)`, on a loop that knows when data arrived."""
    selector = ArrivalSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(main(selector.arrival))


@asynccontextmanager
async def first_error() -> AsyncIterator[None]:
    """A task group's first kvlab error instead of the group."""
    try:
        yield
    except BaseExceptionGroup as group:
        known = [error for error in group.exceptions if isinstance(error, KvlabError)]
        if known:
            raise known[0] from None
        raise
