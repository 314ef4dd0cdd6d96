"""The HTTP side: single requests, and errors as rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from kvlab.core.measure import RequestRow
from kvlab.load.connections import Connections
from kvlab.load.failures import told
from kvlab.load.pages import without_secrets
from kvlab.load.reply import Asked, Reply, server_message
from kvlab.load.retry import BUSY, pause, retry_after
from kvlab.load.sse import EventSplitter

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_ERROR_BODY_BYTES = 4096
_AFTER_DONE_SECONDS = 0.5


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
