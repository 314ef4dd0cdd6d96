"""One process's part of a load: its requests sent in time, its rows, and how busy it was."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

import msgspec

from kvlab.core.measure import RequestRow
from kvlab.load import clock
from kvlab.load.calls import Chain
from kvlab.load.client import Call, Client
from kvlab.load.clock import ArrivalSelector
from kvlab.load.connections import Connections
from kvlab.load.spec import LoadSpec

OnRow = Callable[[RequestRow], None]
_RARE = 0.01


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What one process did. `ended` counts from the start of the run; the rest is as in ClientUse."""

    rows: tuple[RequestRow, ...]
    ended: float
    cpu_seconds: float
    busy_share: float
    lag_mean: float
    lag_p99: float


class Sender:
    """Sends chains of requests to the server at `url`, over `connections`, as `spec` says."""

    def __init__(self, connections: Connections, url: str, spec: LoadSpec, selector: ArrivalSelector) -> None:
        self._connections = connections
        self._url = url + ("/v1/chat/completions" if spec.endpoint == "chat" else "/v1/completions")
        self._spec = spec
        self._selector = selector
        self._rows: list[RequestRow] = []
        self._on_row: OnRow = lambda row: None

    async def closed(self, chains: Iterable[Chain], concurrency: int, start: float, on_row: OnRow) -> Sent:
        """`concurrency` chains at a time, each begun as soon as one has ended."""
        client = self._begin(start, on_row)
        waiting = iter(chains)

        async def worker() -> None:
            for chain in waiting:
                await self._play(client, chain, None)

        with self._watched(start) as used:
            async with clock.first_error(), asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(worker())
        return self._sent(used)

    async def open(self, chains: Sequence[Chain], due: Sequence[float], start: float, on_row: OnRow) -> Sent:
        """Each chain at its time, or later where the spec's concurrency is used up."""
        client = self._begin(start, on_row)
        free = asyncio.Semaphore(self._spec.concurrency or max(1, len(chains)))

        async def one(chain: Chain, scheduled: float) -> None:
            async with free:
                await self._play(client, chain, scheduled)

        with self._watched(start) as used:
            async with clock.first_error(), asyncio.TaskGroup() as group:
                for chain, scheduled in zip(chains, due, strict=True):
                    early = start + scheduled - perf_counter()
                    if early > 0:
                        await asyncio.sleep(early)
                    group.create_task(one(chain, scheduled))
        return self._sent(used)

    def _begin(self, start: float, on_row: OnRow) -> Client:
        self._rows, self._on_row = [], on_row
        return Client(self._connections, self._url, start, self._selector.arrival, retries=self._spec.retries)

    async def _play(self, client: Client, chain: Chain, scheduled: float | None) -> None:
        if len(chain) == 1:
            self._note(await client.send(chain[0], scheduled, keep_text=self._spec.keep_text))
            return
        talk: list[object] = []
        failed: RequestRow | None = None
        for call, following in zip(chain, (*chain[1:], None), strict=True):
            if failed is not None:
                self._note(_unsent(call, failed))
                continue
            keep = following is not None and following.continues
            made = call
            if call.continues or keep:
                own = msgspec.json.decode(call.body)
                talk = [*(talk if call.continues else ()), *own["messages"]]
                made = _with(call, msgspec.json.encode(own | {"messages": talk}))
            row = await client.send(made, scheduled, keep_text=keep or self._spec.keep_text)
            scheduled = None
            talk = [*talk, {"role": "assistant", "content": row.text or ""}] if keep else []
            failed = row if row.error is not None else None
            self._note(row if self._spec.keep_text else msgspec.structs.replace(row, text=None))

    def _note(self, row: RequestRow) -> None:
        self._rows.append(row)
        self._on_row(row)

    @contextmanager
    def _watched(self, start: float) -> Iterator[list[float]]:
        """Measures the process while it sends: when it ended, how long it took, its processor time."""
        used: list[float] = []
        began, cpu = perf_counter(), time.process_time()
        self._selector.busy.clear()
        yield used
        used += [perf_counter() - start, perf_counter() - began, time.process_time() - cpu]

    def _sent(self, used: Sequence[float]) -> Sent:
        ended, duration, cpu = used
        busy = self._selector.busy
        return Sent(
            rows=tuple(sorted(self._rows, key=lambda row: row.index)),
            ended=ended,
            cpu_seconds=cpu,
            busy_share=busy.share(duration),
            lag_mean=busy.mean_lag(duration),
            lag_p99=busy.lag(duration, _RARE),
        )


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Keep what exists out of garbage collection: a full pass over a large heap would delay every stream."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _with(call: Call, body: bytes) -> Call:
    """The call with a longer body, whose prompt may have as many more tokens as it has more bytes."""
    most = call.asked.prompt_tokens + len(body) - len(call.body)
    return msgspec.structs.replace(call, body=body, asked=msgspec.structs.replace(call.asked, prompt_tokens=most))


def _unsent(call: Call, failed: RequestRow) -> RequestRow:
    """The row of a turn whose conversation ended before it."""
    moment = failed.done or failed.sent
    return RequestRow(
        index=call.index,
        prompt_id=call.prompt_id,
        scheduled=moment,
        sent=moment,
        error=f"not sent: {failed.prompt_id}, the turn before, was not answered",
        cancelled=failed.cancelled,
    )
