"""The event loop: when data arrived rather than when a coroutine got round to it, and errors of task groups."""

from __future__ import annotations

import asyncio
import select
import selectors
from array import array
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, TypeVar

from kvlab.core.errors import KvlabError

T = TypeVar("T")
NOTICED = 0.0005
"""Seconds of a turn from which it is remembered by itself."""
_FINE_SECONDS = 1.0
_SELECT_LIMIT = 1024


class BusyTimes:
    """How long the turns of an event loop took: what arrives during one is noticed at its end."""

    __slots__ = ("_long", "_squares", "_total")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self._total = self._squares = 0.0
        self._long = array("d")

    def add(self, seconds: float) -> None:
        """One more turn."""
        self._total += seconds
        self._squares += seconds * seconds
        if seconds > NOTICED:
            self._long.append(seconds)

    def share(self, duration: float) -> float:
        """Of `duration` seconds, the share in which the loop was not waiting."""
        return min(1.0, self._total / duration)

    def mean_lag(self, duration: float) -> float:
        """Seconds that data arriving at a random moment waits, on average.

        It meets a turn of length b with probability b / duration, and then half of it is still to come.
        """
        return self._squares / 2 / duration

    def lag(self, duration: float, share: float) -> float:
        """Seconds that are exceeded by that share of such waits; NOTICED where it is less than that."""
        # More than x is waited in the part of a turn that lies more than x before its end.
        low, high = NOTICED, max(self._long, default=NOTICED)
        for _ in range(40):
            middle = (low + high) / 2
            over = sum(seconds - middle for seconds in self._long if seconds > middle)
            low, high = (middle, high) if over > share * duration else (low, middle)
        return high


class ArrivalSelector(selectors.DefaultSelector):
    """A selector that remembers when it last reported readable sockets.

    asyncio takes data off the sockets in the same turn of its loop, and wakes the coroutines that wait for it in the
    next one. So `arrival` read by a woken coroutine is the moment at which its data was known to be there, whatever
    else the loop had to do in between: with 64 streams in step that is some milliseconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turn = self._turn_before = perf_counter()
        self.busy = BusyTimes()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, as any selector does, but not longer than `timeout` seconds to the microsecond.

        epoll counts in whole milliseconds, which would make every request of an open loop half of one late.
        """
        self.busy.add(perf_counter() - self._turn)
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
    return run_watched(lambda selector: main(selector.arrival))


def run_watched(main: Callable[[ArrivalSelector], Coroutine[Any, Any, T]]) -> T:
    """The same, with the loop's selector, which also knows how busy the loop is."""
    selector = ArrivalSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(main(selector))


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
