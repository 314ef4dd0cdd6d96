"""The end of a TLS connection that is not reused: a server that takes its time over the goodbye is waited for."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from kvlab.load.connections import Connections
from kvlab.load.spec import Tls

LATE = 0.2
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def late(certificate: tuple[Path, ssl.SSLContext]) -> Iterator[str]:
    """The address of a server that answers one request, and the goodbye after it 0.2 s late."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            raw, _ = listening.accept()
            with certificate[1].wrap_socket(raw, server_side=True) as tls:
                tls.recv(65536)
                tls.sendall(ANSWER)
                assert tls.recv(1) == b""
                time.sleep(LATE)
                tls.unwrap()

        thread = Thread(target=answer)
        thread.start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def test_no_connection_outlives_the_loop(late: str) -> None:
    async def main() -> bytes:
        async with Connections(10.0, late, Tls(insecure=True)) as connections, connections.fresh.get(late) as response:
            return await response.read()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert asyncio.run(main()) == b"{}"
        gc.collect()
    assert [str(one.message) for one in caught if issubclass(one.category, ResourceWarning)] == []
