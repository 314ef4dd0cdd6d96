"""A server on loopback, in a thread of its own, that answers every path by one function."""

from __future__ import annotations

import asyncio
import socket
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
        with socket.create_server(("127.0.0.1", 0)) as listening:
            accepted = _accepting(listening, runner, tls)
            found.append(f"http{'s' if tls else ''}://127.0.0.1:{listening.getsockname()[1]}")
            ready.set()
            await finish.wait()
            loop.remove_reader(listening)
        whole = await asyncio.gather(*accepted, return_exceptions=True)
        await runner.cleanup()
        for one in whole:
            if not isinstance(one, BaseException):
                one[0].abort()
        await asyncio.sleep(0)  # they are closed by the next turn of the loop

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


Accepted = asyncio.Task[tuple[asyncio.Transport, asyncio.BaseProtocol]]


def _accepting(listening: socket.socket, runner: web.AppRunner, tls: SSLContext | None) -> list[Accepted]:
    """The connections so far, from now on.

    Those that asyncio's own server has just accepted when it is closed are never closed, and nobody answers them.
    """
    loop, accepted = asyncio.get_running_loop(), list[Accepted]()
    assert runner.server is not None
    handler = runner.server

    def accept() -> None:
        with suppress(OSError):
            connection, _ = listening.accept()
            accepted.append(loop.create_task(loop.connect_accepted_socket(handler, connection, ssl=tls)))

    listening.setblocking(False)
    loop.add_reader(listening, accept)
    return accepted
