"""A server on loopback, in a thread of its own, that answers every path by one function."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ssl import SSLContext

from aiohttp import web


def started(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]], tls: SSLContext | None = None
) -> tuple[str, Callable[[], None]]:
    """Its address, and what stops it, which may be called twice."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    finish = asyncio.Event()
    found: list[str] = []

    async def main() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        host, port = runner.addresses[0][:2]
        found.append(f"http{'s' if tls else ''}://{host}:{port}")
        ready.set()
        await finish.wait()
        await runner.cleanup()

    def body() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(main())
        loop.close()

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    assert ready.wait(10)

    def stop() -> None:
        # The thread closes its loop just before it ends, so being alive does not mean that the loop takes calls.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(finish.set)
        thread.join(10)

    return found[0], stop
