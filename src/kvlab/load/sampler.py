"""The engine's own metrics during a run."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.measure import MetricSample, PoolUse
from kvlab.core.metric_map import MetricMap
from kvlab.load.pages import METRICS_BYTES, body

if TYPE_CHECKING:
    from aiohttp import ClientSession

_SECONDS = 5.0
_MOST_HELD = 256 << 20
"""Bytes of compressed pages of one run; later pages are not kept."""


class Sampler:
    """Reads the metrics every `pause` seconds between `open` and `close`.

    Texts are kept compressed and parsed after the run: parsing a page takes milliseconds, during which no token would
    be noticed. One sampler at a time: scraping resets two of llama.cpp's gauges.
    """

    def __init__(self, session: ClientSession, url: str, metrics: MetricMap, pause: float) -> None:
        self._session = session
        self._url = url
        self._metrics = metrics
        self._pause = pause
        self._seen: list[tuple[float, dict[str, bytes]]] = []
        self._held = 0
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """The first sample, and the start of the others."""
        if await self._sample():
            self._task = asyncio.create_task(self._keep_sampling())

    async def close(self) -> None:
        """The last sample: counter differences span the whole run."""
        if self._task is None:
            return
        await self.cancel()
        await self._sample()

    async def cancel(self) -> None:
        """Stop at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def samples(self, start: float) -> tuple[MetricSample, ...]:
        """What was read, in seconds from `start`. Pages that hold no known metric are left out."""
        found = []
        for moment, pages in self._seen:
            texts = {path: zlib.decompress(page).decode(errors="replace") for path, page in pages.items()}
            try:
                values = self._metrics.read(texts)
            except BadInput:
                continue
            if values:
                found.append(MetricSample(moment - start, values))
        return tuple(found)

    async def _keep_sampling(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            await self._sample()

    async def _sample(self) -> bool:
        import aiohttp

        pages = {}
        moment = perf_counter()
        for path in self._metrics.paths:
            try:
                async with self._session.get(
                    f"{self._url}{path}", timeout=aiohttp.ClientTimeout(total=_SECONDS)
                ) as response:
                    if response.status == 200:
                        pages[path] = zlib.compress(await body(response, METRICS_BYTES), 1)
            except (aiohttp.ClientError, TimeoutError, ServerRefused):
                continue
        held = sum(map(len, pages.values()))
        if pages and self._held + held <= _MOST_HELD:
            self._seen.append((moment, pages))
            self._held += held
        return bool(pages)


def pool_use(samples: Sequence[MetricSample]) -> PoolUse:
    """Peaks of the gauges, and differences of the counters between the first and the last sample."""
    queries = _grown(samples, "prefix_queries_tokens_total")
    hits = _grown(samples, "prefix_hits_tokens_total")
    return PoolUse(
        peak_kv_used=_peak(samples, "kv_used_ratio"),
        peak_running=_peak(samples, "running"),
        peak_waiting=_peak(samples, "waiting"),
        preemptions=_grown(samples, "preemptions_total"),
        prefix_hit_rate=hits / queries if queries and hits is not None and hits <= queries else None,
        samples=len(samples),
    )


def _peak(samples: Sequence[MetricSample], word: str) -> float | None:
    return max((sample.values[word] for sample in samples if word in sample.values), default=None)


def _grown(samples: Sequence[MetricSample], word: str) -> float | None:
    values = [sample.values[word] for sample in samples if word in sample.values]
    # A counter that fell was reset by a restart: its difference says nothing.
    return values[-1] - values[0] if len(values) > 1 and values[-1] >= values[0] else None
