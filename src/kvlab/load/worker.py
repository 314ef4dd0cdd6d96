"""One of the processes of a load: reads its part on standard input, sends it, writes its rows on standard output."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from contextlib import suppress
from time import perf_counter

import msgspec

from kvlab.core.errors import KvlabError
from kvlab.core.measure import RequestRow
from kvlab.load import clock
from kvlab.load.clock import ArrivalSelector
from kvlab.load.connections import Connections
from kvlab.load.processes import WIDTH, Job, Told, framed, tickets
from kvlab.load.sending import Sender, Sent

_TELL_EVERY = 0.2


def main(out: int) -> None:
    """The whole process, which writes to the file descriptor `out`. It ends when whoever started it is gone."""
    job = msgspec.msgpack.decode(_read(), type=Job)
    with suppress(asyncio.CancelledError, BrokenPipeError):
        try:
            sent = clock.run_watched(lambda selector: _work(job, out, selector))
        except KvlabError as refusal:
            _tell(out, Told(refusal=str(refusal)))
            return
        _tell(out, Told(sent=sent))


async def _work(job: Job, out: int, selector: ArrivalSelector) -> Sent:
    counted: list[tuple[str | None, bool]] = []

    def note(row: RequestRow) -> None:
        counted.append((row.error, row.cancelled))

    async def tell() -> None:
        while True:
            await asyncio.sleep(_TELL_EVERY)
            if counted:
                _tell(out, Told(counted=counted))
                counted.clear()

    async with Connections(job.spec.timeout, job.url, job.spec.tls) as connections:
        sender = Sender(connections, job.base, job.spec, selector)
        gc.collect()
        gc.freeze()
        _tell(out, Told())
        start = msgspec.msgpack.decode(_read(), type=float)
        _end_with_parent()
        telling = asyncio.create_task(tell())
        await asyncio.sleep(max(0.0, start - perf_counter()))
        try:
            if job.due is not None:
                return await sender.open(job.chains, job.due, start, note)
            waiting = tickets(job.tickets, job.chains)
            return await sender.closed(waiting, job.spec.concurrency or 1, start, note)
        finally:
            telling.cancel()
            with suppress(BrokenPipeError):
                _tell(out, Told(counted=counted))


def _end_with_parent() -> None:
    """Standard input ends when the parent does: then this process gives up every request."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(sys.stdin.fileno())
        task.cancel()

    loop.add_reader(sys.stdin.fileno(), ended)


def _read() -> bytes:
    """One frame of standard input; it ends the process when there is none any more."""
    file = sys.stdin.fileno()
    return _exactly(file, int.from_bytes(_exactly(file, WIDTH)))


def _exactly(file: int, count: int) -> bytes:
    parts, left = [], count
    while left:
        part = os.read(file, min(left, 1 << 20))
        if not part:
            raise SystemExit(1)
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _tell(out: int, told: Told) -> None:
    content = memoryview(framed(msgspec.msgpack.encode(told)))
    while content:
        content = content[os.write(out, content) :]
