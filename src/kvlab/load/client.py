"""The HTTP side: sessions, single requests, and errors as rows."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING
from weakref import WeakSet

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.measure import RequestRow
from kvlab.load.address import authorization
from kvlab.load.failures import CONNECT_SECONDS, told
from kvlab.load.pages import without_secrets
from kvlab.load.reply import Asked, Reply, server_message
from kvlab.load.retry import BUSY, pause, retry_after
from kvlab.load.spec import Tls
from kvlab.load.sse import EventSplitter
from kvlab.load.tls import context

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import AddrInfoType, ClientResponse, ClientSession

KEY_VARIABLE = "KVLAB_API_KEY"
"""Its own name: a key of another service is not sent to whatever address is named."""
# Below the 5 s after which uvicorn and llama.cpp close an idle connection: a request never meets a closing one.
_KEEP_IDLE_SECONDS = 2.0
_ERROR_BODY_BYTES = 4096
_AFTER_DONE_SECONDS = 0.5
_READ_BYTES = 1 << 16
_CLOSING_SECONDS = 2.0
_CLOSING_LOOK_SECONDS = 0.005


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request ready to be sent: its place in the run, its encoded body, and what an answer to it can be."""

    index: int
    prompt_id: str
    body: bytes
    asked: Asked = Asked()
    continues: bool = False
    """Whether the messages of the call before it, and the answer to it, go before its own."""
    cancel_after: float | None = None
    """Seconds after which the client gives it up."""


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


class _Exchange:
    """One request with all its tries, of which the last one counts."""

    __slots__ = ("begun", "body", "busy", "call", "cancelled", "error", "reply", "retry_after", "status", "text")

    def __init__(self, call: Call, text: bool) -> None:
        self.call = call
        self.text = text
        self.begun: float | None = None
        self.busy: list[int] = []
        self.cancelled = False
        self.renew()

    def renew(self) -> None:
        """Another try."""
        from kvlab.load.body import TimedBody

        self.reply = Reply(self.text, self.call.asked)
        self.body = TimedBody(self.call.body)
        self.status: int | None = None
        self.error: str | None = None
        self.retry_after: float | None = None


class Client:
    """Sends requests to one address and times them from `start` (a `perf_counter` reading).

    `arrival` says when the data just read had arrived; `perf_counter` itself will do on a loop that cannot tell. What
    is answered 429 or 503 is sent up to `retries` times more.
    """

    def __init__(
        self, connections: Connections, url: str, start: float, arrival: Callable[[], float], *, retries: int = 0
    ) -> None:
        from yarl import URL

        self._connections = connections
        self._url = URL(url)
        self._start = start
        self._arrival = arrival
        self._retries = retries

    async def send(self, call: Call, scheduled: float | None = None, *, keep_text: bool = False) -> RequestRow:
        """One request, due `scheduled` seconds after the start, or due when it is sent. Failures become `error`."""
        exchange = _Exchange(call, keep_text)
        try:
            async with asyncio.timeout(call.cancel_after):
                await self._exchange(exchange)
        except TimeoutError:
            exchange.error = f"cancelled: by the client, {call.cancel_after:g} s after sending"
            exchange.cancelled = True
        exchange.reply.settle()
        return self._row(exchange, scheduled)

    async def _exchange(self, exchange: _Exchange) -> None:
        await self._try(exchange)
        for tries in range(1, self._retries + 1):
            if exchange.status not in BUSY:
                return
            exchange.begun = exchange.begun or exchange.body.sent
            wait = pause(exchange.retry_after, tries)
            limit = self._connections.timeout - (perf_counter() - exchange.begun)
            if wait > limit:
                exchange.error = f"{exchange.error} (to be sent again in {wait:g} s, which the time-out rules out)"
                return
            exchange.busy.append(exchange.status)
            await asyncio.sleep(wait)
            exchange.renew()
            await self._try(exchange)

    async def _try(self, exchange: _Exchange) -> None:
        session = self._connections.session
        await self._stream(session, exchange)
        cut = exchange.error is not None and exchange.error.startswith("cut") and exchange.status is None
        if cut and session is not self._connections.fresh:
            self._connections.reuse = False
            exchange.error = None
            await self._stream(self._connections.fresh, exchange)

    async def _stream(self, session: ClientSession, exchange: _Exchange) -> None:
        try:
            exchange.error = await self._streamed(session, exchange)
        except Exception as problem:
            exchange.error = told(problem, exchange.reply, session.timeout.total)

    async def _streamed(self, session: ClientSession, exchange: _Exchange) -> str | None:
        async with session.post(self._url, data=exchange.body, allow_redirects=False) as response:
            exchange.status = response.status
            if response.status != 200:
                exchange.retry_after = retry_after(response.headers.get("Retry-After"))
                return f"http {response.status}: {await _refusal(response)}"
            if response.content_type in ("text/html", "application/json"):
                return f"not a stream: {response.content_type}: {await _refusal(response)}"
            await self._read(response, exchange.reply)
        return None

    async def _read(self, response: ClientResponse, reply: Reply) -> None:
        arrival = self._arrival
        events = EventSplitter()
        take = reply.take
        content = response.content
        while reply.error is None:
            data = await content.readany()
            now = arrival()
            reply.received(len(data), events.waiting)
            if not data:
                for payload in events.close():
                    take(payload, now)
                return
            for payload in events.feed(data):
                take(payload, now)
                if payload == b"[DONE]":
                    await _drain(response)
                    return

    def _row(self, exchange: _Exchange, due: float | None) -> RequestRow:
        start, reply = self._start, exchange.reply
        error = exchange.error or reply.verdict()
        sent = exchange.body.sent - start
        # With nothing before the sending, a wait for a busy server still counts from the first try.
        begun = sent if exchange.begun is None else exchange.begun - start
        scheduled = begun if due is None else due
        first = None if reply.first is None else reply.first - start
        complete = error is None and first is not None
        done = (reply.last if complete else perf_counter()) - start
        tokens = reply.chunks if reply.output_tokens is None else reply.output_tokens
        return RequestRow(
            index=exchange.call.index,
            prompt_id=exchange.call.prompt_id,
            scheduled=scheduled,
            sent=sent,
            first=first,
            done=done,
            ttft=None if first is None else first - scheduled,
            # The definition of `vllm bench serve`.
            tpot=(done - first) / (tokens - 1) if complete and first is not None and tokens > 1 else None,
            e2e=done - scheduled if complete else None,
            itls=tuple(reply.gaps),
            prompt_tokens=reply.prompt_tokens,
            output_tokens=tokens if tokens or complete else None,
            cached_tokens=reply.cached_tokens,
            doubt=reply.doubt,
            tokens_from=None if not tokens else "chunks" if reply.output_tokens is None else "usage",
            finish_reason=reply.finish_reason,
            status=exchange.status,
            error=None if error is None else without_secrets(error, self._connections.fresh),
            text=None if reply.texts is None else "".join(reply.texts),
            cancelled=exchange.cancelled,
            retried=tuple(exchange.busy),
        )


async def _drain(response: ClientResponse) -> None:
    """Read to the end so that the connection can be used again; a server that keeps it open is not waited for."""
    if not response.content.at_eof():
        try:
            async with asyncio.timeout(_AFTER_DONE_SECONDS):
                await response.content.readany()
        except TimeoutError:
            response.close()


async def _refusal(response: ClientResponse) -> str:
    return server_message(await response.content.read(_ERROR_BODY_BYTES)) or response.reason or "no message"
