"""One load run: first contact, warm-up, the measured requests, the engine's metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Literal

from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.measure import PoolUse, RequestRow
from kvlab.core.metric_map import MetricMap
from kvlab.load import clock
from kvlab.load.calls import Chain, chains
from kvlab.load.clock import ArrivalSelector
from kvlab.load.connections import KEY_VARIABLE, Connections
from kvlab.load.processes import Fleet, processes_for
from kvlab.load.sampler import Sampler, pool_use
from kvlab.load.schedule import due_times
from kvlab.load.sending import Sender, Sent, quiet_collector
from kvlab.load.server import Server, contact
from kvlab.load.spec import LoadResult, LoadSpec, OnProgress, Progress, Prompt
from kvlab.load.usage import client_use

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
    request at all, or stops taking connections half way. Ctrl-C cancels every request, ends every process that was
    started and raises KeyboardInterrupt.
    """
    if not prompts:
        raise BadInput("there is no prompt to send")

    async def main(selector: ArrivalSelector) -> LoadResult:
        async with Connections(spec.timeout, url, spec.tls) as connections:
            server = await contact(connections.fresh, url, spec.model)
            run = _Run(connections, server, spec, selector, progress)
            if warm_up:
                await run.warm_up(warm_up)
            return await run.measure(prompts, metrics, url)

    return clock.run_watched(main)


class _Run:
    def __init__(
        self,
        connections: Connections,
        server: Server,
        spec: LoadSpec,
        selector: ArrivalSelector,
        progress: OnProgress | None,
    ) -> None:
        self._connections = connections
        self._server = server
        self._spec = spec
        self._selector = selector
        self._progress = progress

    async def warm_up(self, prompts: Sequence[Prompt]) -> None:
        tally = self._tally("warm-up", len(prompts))
        calls = chains(prompts, self._without_cancelling(), self._server.model)
        concurrency = min(self._spec.concurrency or _WARM_UP_CONCURRENCY, len(calls))
        sent = await self._sender().closed(calls, concurrency, perf_counter(), tally.note)
        self._check(sent.rows)

    async def measure(self, prompts: Sequence[Prompt], metrics: MetricMap | None, url: str) -> LoadResult:
        spec = self._spec
        tally = self._tally("load", len(prompts))
        calls = chains(prompts, spec, self._server.model)
        due = due_times(len(calls), spec)
        sampler = (
            None if metrics is None else Sampler(self._connections.fresh, self._server.url, metrics, spec.sample_every)
        )
        count = processes_for(spec, prompts, len(calls))
        async with _sampling(sampler):
            if count == 1:
                with quiet_collector():
                    start = perf_counter()
                    parts = [await self._send(calls, due, start, tally)]
            else:
                async with Fleet(count, url, self._server.url, spec) as fleet:
                    start, parts = await fleet.send(calls, due, tally.count)
            duration = max(part.ended for part in parts)
        rows = tuple(sorted((row for part in parts for row in part.rows), key=lambda row: row.index))
        self._check(rows)
        samples = () if sampler is None else sampler.samples(start)
        use = client_use(parts, rows, duration, due is not None and spec.concurrency is None)
        return LoadResult(
            rows=rows,
            duration=duration,
            samples=samples,
            pool=pool_use(samples) if samples else PoolUse(),
            model=self._server.model,
            client_cpu_seconds=use.cpu_seconds,
            client=use,
        )

    async def _send(self, calls: Sequence[Chain], due: Sequence[float] | None, start: float, tally: _Tally) -> Sent:
        sender = self._sender()
        if due is not None:
            return await sender.open(calls, due, start, tally.note)
        return await sender.closed(calls, min(self._spec.concurrency or 1, len(calls)), start, tally.note)

    def _sender(self) -> Sender:
        return Sender(self._connections, self._server.url, self._spec, self._selector)

    def _tally(self, phase: Literal["warm-up", "load"], total: int) -> _Tally:
        return _Tally(self._server.url, phase, total, self._progress)

    def _without_cancelling(self) -> LoadSpec:
        from msgspec.structs import replace

        return replace(self._spec, cancel_share=0.0, cancel_after=None)

    def _check(self, rows: Sequence[RequestRow]) -> None:
        if all(row.error is not None and not row.cancelled for row in rows):
            key = f"; set {KEY_VARIABLE} to a key that it takes" if rows[0].status in (401, 403) else ""
            raise ServerRefused(
                f"all {len(rows)} requests to {self._server.url} failed; the first: {rows[0].error}{key}"
            )


class _Tally:
    """Counts rows as they come, of however many processes, and ends a run whose server is gone."""

    def __init__(self, url: str, phase: Literal["warm-up", "load"], total: int, progress: OnProgress | None) -> None:
        self._url, self._phase, self._total, self._progress = url, phase, total, progress
        self._done = self._failed = self._refused = 0

    def note(self, row: RequestRow) -> None:
        """One more row: see `count`."""
        self.count(row.error, row.cancelled)

    def count(self, error: str | None, cancelled: bool) -> None:
        """One more request that ended. Raises ServerRefused when the last few found no server."""
        self._done += 1
        self._failed += error is not None and not cancelled
        refused = error is not None and error.startswith("refused")
        self._refused = self._refused + 1 if refused else 0
        if self._refused >= min(REFUSALS_IN_A_ROW, self._total):
            raise ServerRefused(
                f"{self._url} stopped taking connections after {self._done - self._failed} of {self._total} requests"
                f" ({error}); see the engine's log"
            )
        if self._progress is not None:
            self._progress(Progress(self._phase, self._done, self._total, self._failed))


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
