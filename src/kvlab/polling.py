"""Looks at a running server: its metrics pages again and again for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kvlab import engines
from kvlab.attach import info, named, pages
from kvlab.core.diagnosis import Look, Scrape
from kvlab.core.errors import ServerRefused
from kvlab.load import clock
from kvlab.load.connections import Connections
from kvlab.load.pages import to_keep

if TYPE_CHECKING:
    from aiohttp import ClientSession

_SECONDS = 20.0
"""Longest wait for one page: a server at its limit answers late."""
_LOOKS = 30
_OFTEN, _SELDOM = 0.25, 5.0
"""Seconds between two looks, at least and at most."""


def poll(
    url: str, engine: str | None, seconds: float, on_count: Callable[[int, int], None] | None = None
) -> tuple[Scrape, ...]:
    """The server's pages at once, at the end of `seconds`, and some thirty times in between, without secrets.

    A look that fails in between is left out. `on_count` is told the seconds that have passed, and all of them. Raises
    ServerRefused when the server does not answer at both ends, BadInput when it does not say which engine it is.
    """

    async def main(_: Callable[[], float]) -> tuple[Scrape, ...]:
        async with Connections(_SECONDS, url) as connections:
            base, name = await named(connections.fresh, _base(url), engine)
            return await _poll(connections.fresh, (base, name), seconds, on_count)

    return clock.run(main)


def _base(url: str) -> str:
    """The address without the path of a metrics page."""
    pages = sorted({engines.metric_map(name).paths[0] for name in engines.names()}, key=len, reverse=True)
    plain = url.rstrip("/")
    return plain.removesuffix(next((page for page in pages if plain.endswith(page)), ""))


async def _poll(
    session: ClientSession, server: tuple[str, str], seconds: float, on_count: Callable[[int, int], None] | None
) -> tuple[Scrape, ...]:
    described = await info(session, *server)
    pause = min(max(seconds / _LOOKS, _OFTEN), _SELDOM)
    start, began, found = time.perf_counter(), time.time(), list[Scrape]()
    while True:
        passed = time.perf_counter() - start
        if on_count is not None:
            on_count(min(int(passed), int(seconds)), int(seconds))
        try:
            sent = described | await pages(session, *server)
            read = {path: to_keep(text, session) for path, text in sent.items()}
            # the clock of the day may be set back
            found.append(Scrape(time=began + time.perf_counter() - start, engine=server[1], pages=read))
        except ServerRefused:
            # The first look says whether there is a server, the last whether there is one still.
            if not found or passed >= seconds:
                raise
        if passed >= seconds:
            return tuple(found)
        await asyncio.sleep(max(0.0, min(pause, seconds - (time.perf_counter() - start))))


def looks(scrapes: tuple[Scrape, ...]) -> tuple[Look, ...]:
    """The pages read. Raises BadInput when one is not what its path says."""
    start = scrapes[0].time
    return tuple(Look(one.time - start, engines.reading(one.engine, one.pages)) for one in scrapes)
