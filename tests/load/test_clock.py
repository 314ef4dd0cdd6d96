from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from time import perf_counter

import pytest

from kvlab.core.errors import BadInput
from kvlab.load import clock


def test_data_keeps_its_arrival_while_another_coroutine_works() -> None:
    async def main(arrival: Callable[[], float]) -> list[tuple[float, float]]:
        pairs = [socket.socketpair() for _ in range(2)]
        streams = [await asyncio.open_connection(sock=here) for here, _ in pairs]
        seen: list[tuple[float, float]] = []

        async def read(reader: asyncio.StreamReader) -> None:
            await reader.read(1)
            seen.append((arrival(), perf_counter()))
            time.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            for reader, _ in streams:
                group.create_task(read(reader))
            await asyncio.sleep(0)
            for _, there in pairs:
                there.send(b"x")
        for (_, writer), (_, there) in zip(streams, pairs, strict=True):
            writer.close()
            await writer.wait_closed()
            there.close()
        return seen

    (first, _), (second, noticed) = clock.run(main)
    assert second == first
    assert noticed - second > 0.045


def test_sleeping_is_finer_than_a_millisecond() -> None:
    async def main(arrival: Callable[[], float]) -> list[float]:
        late = []
        for _ in range(30):
            due = perf_counter() + 0.0123
            await asyncio.sleep(0.0123)
            late.append(perf_counter() - due)
        return late

    late = clock.run(main)
    assert min(late) >= -1e-4
    assert sorted(late)[3] < 0.0005


def test_one_error_of_a_group_is_the_error() -> None:
    async def fail(problem: Exception) -> None:
        raise problem

    async def main(problem: Exception) -> None:
        async with clock.first_error(), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(60))
            group.create_task(fail(problem))

    with pytest.raises(BadInput, match="one line"):
        asyncio.run(main(BadInput("one line")))
    with pytest.raises(ExceptionGroup):
        asyncio.run(main(KeyError("a bug")))
