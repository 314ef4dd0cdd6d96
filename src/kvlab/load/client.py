"""The HTTP side: sessions, single requests, and errors as rows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.measure import RequestRow
from kvlab.load.address import authorization
from kvlab.load.pages import without_secrets
from kvlab.load.reply import Asked, Reply, server_message, shorten
from kvlab.load.sse import EventSplitter

if TYPE_CHECKING:
    from aiohttp import ClientConnectorError, ClientResponse, ClientSession

    from kvlab.load.body import TimedBody

KEY_VARIABLE = "KVLAB_API_KEY"
"""Its own name: a key of another service is not sent to whatever address is named."""
_CONNECT_SECONDS = 10.0
# Below the 5 s after which uvicorn and llama.cpp close an idle connection: a request never meets a closing one.
_KEEP_IDLE_SECONDS = 2.0
_ERROR_BODY_BYTES = 4096
_AFTER_DONE_SECONDS = 0.5


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request ready to be sent: its place in the run, its encoded body, and what an answer to it can be."""

    index: int
    prompt_id: str
    body: bytes
    asked: Asked = Asked()


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

    def __init__(self, timeout: float, url: str = "") -> None:
        sent = authorization(url) if url else None
        self.reuse = True
        self.fresh = _session(timeout, sent, reuse=False)
        self._kept = _session(timeout, sent, reuse=True)

    @property
    def session(self) -> ClientSession:
        """The session for the next request."""
        return self._kept if self.reuse else self.fresh

    async def __aenter__(self) -> Connections:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.fresh.close()
        await self._kept.close()


def _session(timeout: float, credentials: str | None, *, reuse: bool) -> ClientSession:
    from aiohttp import ClientSession, ClientTimeout, TCPConnector

    # Compressed streams arrive in the compressor's rhythm, not in the engine's.
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    key = api_key()
    if credentials is not None or key is not None:
        headers["Authorization"] = credentials or f"Bearer {key}"
    return ClientSession(
        connector=TCPConnector(limit=0, keepalive_timeout=_KEEP_IDLE_SECONDS, ttl_dns_cache=None)
        if reuse
        else TCPConnector(limit=0, force_close=True, ttl_dns_cache=None),
        timeout=ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS),
        headers=headers,
    )


class Client:
    """Sends requests to one address and times them from `start` (a `perf_counter` reading).

    `arrival` says when the data just read had arrived; `perf_counter` itself will do on a loop that cannot tell.
    """

    def __init__(
        self, connections: Connections, url: str, start: float, arrival: Callable[[], float], *, keep_text: bool = False
    ) -> None:
        from yarl import URL

        self._connections = connections
        self._url = URL(url)
        self._start = start
        self._arrival = arrival
        self._keep_text = keep_text

    async def send(self, call: Call, scheduled: float | None = None) -> RequestRow:
        """One request, due `scheduled` seconds after the start, or due when it is sent. Failures become `error`."""
        from kvlab.load.body import TimedBody

        reply = Reply(self._keep_text, call.asked)
        body = TimedBody(call.body)
        session = self._connections.session
        status, error = await self._stream(session, body, reply)
        if error is not None and error.startswith("cut") and status is None and session is not self._connections.fresh:
            self._connections.reuse = False
            status, error = await self._stream(self._connections.fresh, body, reply)
        reply.settle()
        sent = body.sent - self._start
        due = sent if scheduled is None else scheduled
        return self._row(call, (due, sent), (reply, status, error or reply.verdict()))

    async def _stream(self, session: ClientSession, body: TimedBody, reply: Reply) -> tuple[int | None, str | None]:
        import aiohttp

        status = None
        try:
            async with session.post(self._url, data=body, allow_redirects=False) as response:
                status = response.status
                if status != 200:
                    return status, f"http {status}: {await _refusal(response)}"
                if response.content_type in ("text/html", "application/json"):
                    return status, f"not a stream: {response.content_type}: {await _refusal(response)}"
                await self._read(response, reply)
        except aiohttp.ClientConnectorError as problem:
            return status, f"refused: {connect_problem(problem)}"
        except aiohttp.ConnectionTimeoutError:
            return status, f"refused: no connection within {_CONNECT_SECONDS:g} s"
        except TimeoutError:
            return status, f"timeout: no complete answer within {session.timeout.total:g} s"
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, aiohttp.ClientOSError):
            # A server that hangs up after [DONE] has still answered.
            complete = reply.finished and reply.error is None
            return status, None if complete else f"cut: the connection broke after {reply.chunks} chunks"
        except aiohttp.ClientError as problem:
            return status, f"bad answer: {type(problem).__name__}: {shorten(str(problem))}"
        return status, None

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

    def _row(
        self, call: Call, moments: tuple[float, float], outcome: tuple[Reply, int | None, str | None]
    ) -> RequestRow:
        scheduled, sent = moments
        reply, status, error = outcome
        start = self._start
        first = None if reply.first is None else reply.first - start
        complete = error is None and first is not None
        done = (reply.last if complete else perf_counter()) - start
        tokens = reply.chunks if reply.output_tokens is None else reply.output_tokens
        return RequestRow(
            index=call.index,
            prompt_id=call.prompt_id,
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
            status=status,
            error=None if error is None else without_secrets(error, self._connections.fresh),
            text=None if reply.texts is None else "".join(reply.texts),
        )


def connect_problem(problem: ClientConnectorError) -> str:
    """Why no connection came about, in the system's words: "Connection refused"."""
    from ssl import SSLError

    number = problem.os_error.errno
    # what a plain port answers to TLS is no greeting, or nothing at all
    if isinstance(problem.os_error, SSLError) or not str(problem.os_error):
        told = shorten(str(problem.os_error)) or type(problem.os_error).__name__
        return f"no encrypted connection came about ({told}); an http:// server?"
    # asyncio writes "Connect call failed (...)" in place of the system's text; name look-ups have negative numbers.
    return os.strerror(number) if number is not None and number > 0 else shorten(str(problem.os_error))


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
