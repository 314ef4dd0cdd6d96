"""The sessions of a run: what they send along, how they connect, and how their connections end."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING
from weakref import WeakSet

from kvlab.core.errors import BadInput
from kvlab.load.address import authorization
from kvlab.load.failures import CONNECT_SECONDS
from kvlab.load.spec import Tls
from kvlab.load.tls import context

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import AddrInfoType, ClientSession

KEY_VARIABLE = "KVLAB_API_KEY"
"""Its own name: a key of another service is not sent to whatever address is named."""
# Below the 5 s after which uvicorn and llama.cpp close an idle connection: a request never meets a closing one.
_KEEP_IDLE_SECONDS = 2.0
_READ_BYTES = 1 << 16
_CLOSING_SECONDS = 2.0
_CLOSING_LOOK_SECONDS = 0.005


def api_key() -> str | None:
    """The API key from the environment; it goes into the request header and nowhere else.

    Raises BadInput for one that no header can carry.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key.isprintable():
        raise BadInput(f"{KEY_VARIABLE} holds a line break or another control character; set it to the key alone")
    return key or None


class Connections:
    """The two sessions of a run: one that reuses connections, and one that opens a new one for every request.

    Some servers close a connection after a few streamed answers without saying so (llama.cpp after two). A request that
    meets such a closing is sent again on a new connection, and from then on nothing is reused. `timeout` seconds bound
    each request as a whole. A user name and password in the server's address `url` are sent in place of an API key.
    """

    def __init__(self, timeout: float, url: str = "", tls: Tls | None = None) -> None:
        sent = authorization(url) if url else None
        checked = context(tls or Tls())
        self.timeout = timeout
        self.reuse = True
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self.fresh = _session(timeout, sent, checked, self._socket, reuse=False)
        self._kept = _session(timeout, sent, checked, self._socket, reuse=True)

    @property
    def session(self) -> ClientSession:
        """The session for the next request."""
        return self._kept if self.reuse else self.fresh

    async def __aenter__(self) -> Connections:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.fresh.close()
        await self._kept.close()
        await self._closed()

    def _socket(self, address: AddrInfoType) -> socket.socket:
        made = _Socket(*address[:3])
        self._sockets.add(made)
        return made

    async def _closed(self) -> None:
        """Wait for the goodbyes of TLS, which aiohttp does not wait for where a connection is not reused."""
        limit = perf_counter() + _CLOSING_SECONDS
        while any(one.fileno() >= 0 for one in self._sockets) and perf_counter() < limit:
            await asyncio.sleep(_CLOSING_LOOK_SECONDS)


class _Socket(socket.socket):
    """A socket that reads less at once than asyncio asks for.

    For the 256 KiB that it asks for, the C library maps memory and unmaps it again with every token that arrives.
    """

    def recv(self, most: int, flags: int = 0, /) -> bytes:
        return super().recv(min(most, _READ_BYTES), flags)


def _session(
    timeout: float,
    credentials: str | None,
    tls: SSLContext | bool,
    sockets: Callable[[AddrInfoType], socket.socket],
    *,
    reuse: bool,
) -> ClientSession:
    from aiohttp import ClientSession, ClientTimeout, TCPConnector

    # Compressed streams arrive in the compressor's rhythm, not in the engine's.
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    key = api_key()
    if credentials is not None or key is not None:
        headers["Authorization"] = credentials or f"Bearer {key}"
    return ClientSession(
        connector=TCPConnector(
            limit=0, keepalive_timeout=_KEEP_IDLE_SECONDS, ttl_dns_cache=None, ssl=tls, socket_factory=sockets
        )
        if reuse
        else TCPConnector(limit=0, force_close=True, ttl_dns_cache=None, ssl=tls, socket_factory=sockets),
        timeout=ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS),
        headers=headers,
    )
