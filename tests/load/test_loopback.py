"""The server that other tests talk to."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

from aiohttp import web

from loopback import started


def test_whoever_connects_while_the_server_stops_is_hung_up_on() -> None:
    busy, go = threading.Event(), threading.Event()

    async def handle(request: web.Request) -> web.Response:
        busy.set()
        go.wait(20)
        return web.Response()

    url, stop = started(handle)
    address = ("127.0.0.1", int(url.rpartition(":")[2]))
    stopping = threading.Thread(target=stop)
    with socket.create_connection(address, timeout=20) as first:
        first.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert busy.wait(20)
        with socket.create_connection(address, timeout=20) as late:
            stopping.start()
            time.sleep(0.1)
            go.set()
            stopping.join()
            with suppress(ConnectionResetError):
                assert late.recv(1) == b""
