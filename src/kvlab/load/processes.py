"""A load sent by several processes: each holds a part of the connections, and all follow one clock.

They are plain subprocesses that are told their part on standard input: a key or a password never stands in their
arguments. What they need of it for a closed loop is which request comes next: they all read from one file, whose
position they share.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from kvlab.core.errors import BadInput, ServerRefused
from kvlab.load.calls import Chain
from kvlab.load.clock import first_error
from kvlab.load.sending import Sent
from kvlab.load.spec import LoadSpec, Prompt

if TYPE_CHECKING:
    from types import TracebackType

OnCount = Callable[[str | None, bool], None]
TOKENS_A_SECOND = 5_000
"""Streamed tokens that one process of an "auto" load is given: a quarter of what one takes on a slow core."""
STREAMS = 128
"""Streams in flight that one process of an "auto" load is given."""
_HEAD_START = 0.05
WIDTH = 4
"""Bytes of a frame's length, and of a chain's number."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What one process is told. `url` may hold a user name and a password."""

    url: str
    base: str
    """The server's address without them."""
    spec: LoadSpec
    chains: list[Chain]
    due: list[float] | None
    """When each chain is due; None in a closed loop, where the numbers of the chains are read from `tickets`."""
    tickets: int = -1


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a process tells: that it is ready, (error, cancelled) of requests that ended, its part, or why not."""

    counted: list[tuple[str | None, bool]] = []
    sent: Sent | None = None
    refusal: str | None = None


def processes_for(spec: LoadSpec, prompts: Sequence[Prompt], chains: int) -> int:
    """Processes that send a load; never more than it has chains, or requests in flight."""
    most = min(chains, spec.concurrency or chains)
    if spec.processes != "auto":
        return max(1, min(spec.processes, most))
    rate = _rate(spec, chains)
    if rate is None:
        wanted = math.ceil((spec.concurrency or 1) / STREAMS)
    else:
        tokens = sum(prompt.output_tokens for prompt in prompts) / chains
        wanted = math.ceil(rate * tokens / TOKENS_A_SECOND)
    # One processor is left to what reads the metrics, and to the server if it is on this machine.
    return max(1, min(wanted, most, len(os.sched_getaffinity(0)) - 1))


def _rate(spec: LoadSpec, chains: int) -> float | None:
    """The highest rate of an open loop, in chains a second."""
    if spec.arrivals:
        return chains / spec.arrivals[-1] if spec.arrivals[-1] > 0 else float(chains)
    return spec.rate if spec.ramp is None else max(spec.ramp.start, spec.ramp.end)


class Fleet:
    """`count` processes, started on entry and gone on exit, however that comes about."""

    def __init__(self, count: int, url: str, base: str, spec: LoadSpec) -> None:
        self._count, self._url, self._base, self._spec = count, url, base, spec
        self._running: list[asyncio.subprocess.Process] = []
        self._tickets = tempfile.TemporaryFile()  # noqa: SIM115 - closed in _end

    async def __aenter__(self) -> Fleet:
        # What anything else prints must not come between the frames.
        code = (
            "import os, sys; out = os.dup(1); os.dup2(2, 1); sys.path[:] = sys.argv[1].split('\\n');"
            " from kvlab.load.worker import main; main(out)"
        )
        try:
            for _ in range(self._count):
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", code, "\n".join(sys.path)),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    pass_fds=(self._tickets.fileno(),),
                    start_new_session=True,  # Ctrl-C reaches this process alone, which ends them
                )
                self._running.append(process)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        for process in self._running:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    # Its own kill() would ask for its end first, and take it from asyncio, which waits for it too.
                    os.kill(process.pid, signal.SIGKILL)
        for process in self._running:
            await process.wait()
        self._tickets.close()

    async def send(
        self, chains: Sequence[Chain], due: Sequence[float] | None, count: OnCount
    ) -> tuple[float, list[Sent]]:
        """The moment at which all began, and what each did. Raises ServerRefused for what any of them refuses."""
        if due is None:
            self._tickets.write(b"".join(number.to_bytes(WIDTH) for number in range(len(chains))))
            self._tickets.flush()
            os.lseek(self._tickets.fileno(), 0, os.SEEK_SET)
        for at, process in enumerate(self._running):
            assert process.stdin is not None
            process.stdin.write(framed(msgspec.msgpack.encode(self._job(at, chains, due))))
            await _drained(process.stdin)
        for process in self._running:
            await _told(process)  # ready
        start = perf_counter() + _HEAD_START
        for process in self._running:
            assert process.stdin is not None
            process.stdin.write(framed(msgspec.msgpack.encode(start)))
            await _drained(process.stdin)
        async with first_error(), asyncio.TaskGroup() as group:
            tasks = [group.create_task(_follow(process, count)) for process in self._running]
        return start, [task.result() for task in tasks]

    def _job(self, at: int, chains: Sequence[Chain], due: Sequence[float] | None) -> Job:
        spec, of = self._spec, self._count
        share = None if spec.concurrency is None else spec.concurrency // of + (at < spec.concurrency % of)
        arrivals = None if spec.arrivals is None else ()  # the times of its part are in `due`
        return Job(
            url=self._url,
            base=self._base,
            spec=msgspec.structs.replace(spec, concurrency=share, arrivals=arrivals),
            chains=list(chains if due is None else chains[at::of]),
            due=None if due is None else list(due[at::of]),
            tickets=self._tickets.fileno(),
        )


async def _follow(process: asyncio.subprocess.Process, count: OnCount) -> Sent:
    while True:
        told = await _told(process)
        for error, cancelled in told.counted:
            count(error, cancelled)
        if told.sent is not None:
            return told.sent


async def _told(process: asyncio.subprocess.Process) -> Told:
    assert process.stdout is not None
    try:
        length = int.from_bytes(await process.stdout.readexactly(WIDTH))
        told = msgspec.msgpack.decode(await process.stdout.readexactly(length), type=Told)
    except (asyncio.IncompleteReadError, msgspec.DecodeError):
        raise BadInput("a client process died (out of memory?); try again with fewer --processes") from None
    if told.refusal is not None:
        raise ServerRefused(told.refusal)
    return told


async def _drained(stream: asyncio.StreamWriter) -> None:
    try:
        await stream.drain()
    except ConnectionError:
        return  # it died: that it tells nothing says so


def framed(content: bytes) -> bytes:
    """Bytes behind their length."""
    return len(content).to_bytes(WIDTH) + content


def tickets(file: int, chains: Sequence[Chain]) -> Iterator[Chain]:
    """The chains that this process takes: whichever is next when it asks."""
    while number := os.read(file, WIDTH):
        yield chains[int.from_bytes(number)]
