"""What a server that runs already says about itself: its metrics and info pages as an observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kvlab import engines, recordings
from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.observation import Observation, Seen
from kvlab.core.scrape import STARTED_AT
from kvlab.load import clock
from kvlab.load.address import base_url
from kvlab.load.connections import Connections
from kvlab.load.pages import METRICS_BYTES, body
from kvlab.load.reply import shorten
from kvlab.load.server import contact

if TYPE_CHECKING:
    from aiohttp import ClientSession

_SECONDS = 20.0
_MOVED, _REDIRECTS = (301, 302, 303, 307, 308), 2
"""Statuses of redirects, and the most that are followed."""


def read_server(url: str, engine: str | None = None) -> Observation:
    """The numbers that the server at `url` states, each with the page it came from.

    Raises ServerRefused when it does not answer, BadInput when it does not say which engine it is, or says
    that it is another one than `engine`.
    """

    async def main(_: Callable[[], float]) -> Observation:
        async with Connections(_SECONDS, url) as connections:
            base, name = await named(connections.fresh, url, engine)
            return await _read(connections.fresh, base, name)

    return clock.run(main)


def read_words(url: str, engine: str) -> dict[str, float] | None:
    """kvlab's words for what the engine's metrics say at this moment; None when the server does not answer."""

    async def main(_: Callable[[], float]) -> dict[str, float]:
        async with Connections(_SECONDS, url) as connections:
            return engines.metric_map(engine).read(await pages(connections.fresh, base_url(url), engine))

    try:
        return clock.run(main)
    except (ServerRefused, BadInput):
        return None


async def named(session: ClientSession, url: str, engine: str | None) -> tuple[str, str]:
    """The server's address without its end, and its engine's name. Raises ServerRefused and BadInput as above.

    A port that serves nothing but its metrics is told by them.
    """
    base, told = base_url(url), None
    try:
        told = (await contact(session, url, None)).engine
    except ServerRefused:
        told = await _by_metrics(session, base, engine)
        if told is None:
            raise
    name = engine or told or await _by_telltale(session, base) or await _by_metrics(session, base, None)
    if name is None:
        raise BadInput(f"{base} does not say which engine it is; name it with --engine")
    if told not in (None, name):
        raise BadInput(f"{base} says that it is {told}, not {name}; correct --engine or the URL")
    return base, name


async def _by_metrics(session: ClientSession, url: str, engine: str | None) -> str | None:
    """The engine whose series the metrics page has, or the asked one where that page has none that kvlab knows."""
    asked = engines.names() if engine is None else (engine,)
    for path in dict.fromkeys(engines.metric_map(name).paths[0] for name in asked):
        try:
            text = await _page(session, url + path)
        except ServerRefused:
            return None
        if text is not None and (found := recordings.engine_of(text) or engine) is not None:
            return found
    return None


async def _by_telltale(session: ClientSession, url: str) -> str | None:
    """The engine that serves a page that no other has."""
    for name in engines.names():
        path = engines.about(name).telltale
        if path is not None and await _page(session, url + path) is not None:
            return name
    return None


async def _read(session: ClientSession, url: str, engine: str) -> Observation:
    found = await info(session, url, engine)
    try:
        found |= await pages(session, url, engine)
    except ServerRefused:
        if not found:
            raise
    reading = engines.reading(engine, found)
    about = engines.about(engine)
    for path in about.paths:
        if (text := await _page(session, url + path)) is not None:
            found[path] = text
    described = about.read(found)
    measured = (
        Seen(name=name, value=value, unit="", line=reading.lines.get(name) or " ".join(found))
        for name, value in sorted(reading.values.items())
        if name != STARTED_AT  # a moment, not a quantity to compare
    )
    seen = (*measured, *described.seen)
    return Observation(engine=engine, version=described.version, seen=seen, settings=described.settings, server=True)


async def pages(session: ClientSession, url: str, engine: str) -> dict[str, str]:
    """The engine's metrics and info pages by path. Raises ServerRefused when there is none, or one was cut or is none.

    A proxy answers 200 and HTML, too.
    """
    paths = engines.metric_map(engine).paths
    found = {path: text for path in paths if (text := await _page(session, url + path)) is not None}
    if not found:
        raise ServerRefused(f"{url} serves none of {', '.join(paths)}; start the engine with its metrics on")
    try:
        engines.reading(engine, found)
    except BadInput as error:
        raise ServerRefused(f"{url}{next(iter(found))}: {error}") from None
    return found


async def info(session: ClientSession, url: str, engine: str) -> dict[str, str]:
    """What the server says about itself, by path; empty when it says nothing."""
    for path in engines.metric_map(engine).info_paths:
        if (text := await _page(session, url + path)) is not None:
            return {path: text}
    return {}


async def _page(session: ClientSession, url: str) -> str | None:
    """The text of a page; None when the server does not serve it.

    Raises ServerRefused for a redirect to another address, whose numbers are not this server's; a path with a slash
    added is still the server's.
    """
    from aiohttp import ClientError
    from yarl import URL

    at = URL(url)
    try:
        for _ in range(_REDIRECTS + 1):
            async with session.get(at, allow_redirects=False) as answer:
                there = answer.headers.get("Location") if answer.status in _MOVED else None
                if there is None:
                    return (
                        (await body(answer, METRICS_BYTES)).decode(errors="replace") if answer.status == 200 else None
                    )
            at = at.join(URL(there))
            if at.origin() != URL(url).origin():
                break
    except (ClientError, TimeoutError, ValueError) as error:
        raise ServerRefused(
            f"{url} did not answer as a metrics page does: {shorten(str(error)) or type(error).__name__}"
        ) from None
    raise ServerRefused(f"{url} redirects to {shorten(str(at.with_user(None)), 100)}; give the server's own address")
