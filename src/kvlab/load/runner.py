"""One load run: first contact, warm-up, the measured requests, the engine's metrics."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Literal

import msgspec

from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.measure import PoolUse, RequestRow
from kvlab.core.metric_map import MetricMap
from kvlab.load import clock
from kvlab.load.client import Call, Client, Connections
from kvlab.load.reply import answerable, request_body
from kvlab.load.sampler import Sampler, pool_use
from kvlab.load.schedule import poisson_arrivals
from kvlab.load.server import Server, contact
from kvlab.load.spec import LoadResult, LoadSpec, OnProgress, Progress, Prompt

REFUSALS_IN_A_ROW = 5
_WARM_UP_CONCURRENCY = 8


def run_load(
    url: str,
    prompts: Sequence[Prompt],
    spec: LoadSpec,
    *,
    warm_up: Sequence[Prompt] = (),
    metrics: MetricMap | None = None,
    progress: OnProgress | None = None,
) -> LoadResult:
    """Send `prompts` in order to the server at `url` and time every one.

    `warm_up` prompts are sent first and leave no row; they should share nothing with the measured ones, or the prefix
    cache answers for the engine. `metrics` names what to read beside the run.

    Raises BadInput for prompts that cannot be sent, ServerRefused when the server cannot be reached, answers no
    request at all, or stops taking connections half way. Ctrl-C cancels every request and raises KeyboardInterrupt.
    """
    if not prompts:
        raise BadInput("there is no prompt to send")

    async def main(arrival: Callable[[], float]) -> LoadResult:
        async with Connections(spec.timeout, url) as connections:
            server = await contact(connections.fresh, url, spec.model)
            run = _Run(connections, server, spec, arrival, progress)
            if warm_up:
                await run.warm_up(warm_up)
            return await run.measure(prompts, metrics)

    return clock.run(main)


class _Run:
    def __init__(
        self,
        connections: Connections,
        server: Server,
        spec: LoadSpec,
        arrival: Callable[[], float],
        progress: OnProgress | None,
    ) -> None:
        self._connections = connections
        self._server = server
        self._spec = spec
        self._arrival = arrival
        self._progress = progress
        self._phase: Literal["warm-up", "load"] = "load"
        self._rows: list[RequestRow] = []
        self._refused = 0
        self._total = 0
        self._failed = 0

    async def warm_up(self, prompts: Sequence[Prompt]) -> None:
        self._phase = "warm-up"
        calls = self._calls(prompts)
        await self._closed(self._client(perf_counter()), calls, self._spec.concurrency or _WARM_UP_CONCURRENCY)
        self._check(self._take_rows())

    async def measure(self, prompts: Sequence[Prompt], metrics: MetricMap | None) -> LoadResult:
        self._phase = "load"
        calls = self._calls(prompts)
        sampler = (
            None
            if metrics is None
            else Sampler(self._connections.fresh, self._server.url, metrics, self._spec.sample_every)
        )
        async with _sampling(sampler), _quiet_collector():
            cpu = time.process_time()
            start = perf_counter()
            client = self._client(start)
            if self._spec.rate is None:
                await self._closed(client, calls, self._spec.concurrency or 1)
            else:
                await self._open(client, calls, start)
            duration = perf_counter() - start
            cpu = time.process_time() - cpu
        rows = self._take_rows()
        self._check(rows)
        samples = () if sampler is None else sampler.samples(start)
        return LoadResult(
            rows=rows,
            duration=duration,
            samples=samples,
            pool=pool_use(samples) if samples else PoolUse(),
            model=self._server.model,
            client_cpu_seconds=cpu,
        )

    def _client(self, start: float) -> Client:
        path = "/v1/chat/completions" if self._spec.endpoint == "chat" else "/v1/completions"
        return Client(self._connections, self._server.url + path, start, self._arrival, keep_text=self._spec.keep_text)

    def _calls(self, prompts: Sequence[Prompt]) -> list[Call]:
        # Bodies are encoded before the clock starts.
        self._total, self._failed, self._refused = len(prompts), 0, 0
        return [self._call(index, prompt) for index, prompt in enumerate(prompts)]

    def _call(self, index: int, prompt: Prompt) -> Call:
        chat = self._spec.endpoint == "chat"
        if prompt.messages is not None and not chat:
            raise BadInput(f"prompt {prompt.id} is a list of messages; it needs the chat endpoint")
        if prompt.token_ids is not None and chat:
            raise BadInput(f"prompt {prompt.id} is a list of token ids; it needs the completions endpoint")
        body = request_body(prompt, self._server.model, chat)
        if self._spec.temperature is not None:
            body["temperature"] = self._spec.temperature
        if self._spec.ignore_eos:
            body["ignore_eos"] = True
        encoded = msgspec.json.encode(body | self._spec.extra)
        return Call(index=index, prompt_id=prompt.id, body=encoded, asked=answerable(prompt, encoded))

    async def _closed(self, client: Client, calls: Sequence[Call], concurrency: int) -> None:
        waiting = iter(calls)

        async def worker() -> None:
            for call in waiting:
                self._note(await client.send(call))

        async with clock.first_error(), asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(calls))):
                group.create_task(worker())

    async def _open(self, client: Client, calls: Sequence[Call], start: float) -> None:
        assert self._spec.rate is not None
        due = poisson_arrivals(len(calls), self._spec.rate, self._spec.seed)
        free = asyncio.Semaphore(self._spec.concurrency or len(calls))

        async def one(call: Call, scheduled: float) -> None:
            async with free:
                self._note(await client.send(call, scheduled))

        async with clock.first_error(), asyncio.TaskGroup() as group:
            for call, scheduled in zip(calls, due, strict=True):
                early = start + scheduled - perf_counter()
                if early > 0:
                    await asyncio.sleep(early)
                group.create_task(one(call, scheduled))

    def _note(self, row: RequestRow) -> None:
        self._rows.append(row)
        if row.error is not None:
            self._failed += 1
        refused = row.error is not None and row.error.startswith("refused")
        self._refused = self._refused + 1 if refused else 0
        if self._refused >= min(REFUSALS_IN_A_ROW, self._total):
            answered = len(self._rows) - self._failed
            raise ServerRefused(
                f"{self._server.url} stopped taking connections after {answered} of {self._total} requests"
                f" ({row.error}); see the engine's log"
            )
        if self._progress is not None:
            self._progress(Progress(self._phase, len(self._rows), self._total, self._failed))

    def _take_rows(self) -> tuple[RequestRow, ...]:
        rows = tuple(sorted(self._rows, key=lambda row: row.index))
        self._rows = []
        return rows

    def _check(self, rows: Sequence[RequestRow]) -> None:
        if all(row.error is not None for row in rows):
            raise ServerRefused(f"all {len(rows)} requests to {self._server.url} failed; the first: {rows[0].error}")


@asynccontextmanager
async def _sampling(sampler: Sampler | None) -> AsyncIterator[None]:
    if sampler is None:
        yield
        return
    await sampler.open()
    try:
        yield
        await sampler.close()
    finally:
        await sampler.cancel()


@asynccontextmanager
async def _quiet_collector() -> AsyncIterator[None]:
    """Keep what exists out of garbage collection: a full pass over a large heap would delay every stream."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
