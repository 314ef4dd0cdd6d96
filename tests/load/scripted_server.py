"""A real HTTP server on loopback, in a thread, that does exactly what a test says."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from loopback import started

Answer = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]
MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "somebody"}]}


def event(text: str | None = None, finish: str | None = None, **more: object) -> bytes:
    """One completions event."""
    choice = {"index": 0, "text": text, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice], **more}, ensure_ascii=False).encode() + b"\n\n"


def chat_event(finish: str | None = None, **delta: object) -> bytes:
    """One chat event."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def usage(prompt: int, output: int, cached: int | None = None) -> bytes:
    """The last event of `stream_options: {"include_usage": true}`."""
    counts: dict[str, object] = {"prompt_tokens": prompt, "completion_tokens": output}
    if cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": cached}
    return b"data: " + json.dumps({"choices": [], "usage": counts}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def begun(request: web.Request) -> web.StreamResponse:
    """A stream whose headers have been sent."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


def stream(*steps: bytes | float, cut: bool = False) -> Answer:
    """Bytes are written at once, numbers are pauses in seconds; `cut` breaks the connection at the end."""

    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = await begun(request)
        for step in steps:
            if isinstance(step, bytes):
                await response.write(step)
            else:
                await asyncio.sleep(step)
        if cut and request.transport is not None:
            request.transport.close()
        else:
            await response.write_eof()
        return response

    return answer


def plain(text: str, status: int = 200, kind: str = "application/json", **headers: str) -> Answer:
    """An answer that is no stream; `Retry_After` is the header Retry-After."""

    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(text=text, status=status, content_type=kind, headers=named)

    return answer


class Scripted:
    """What the server received, and what it answers. `answers` are used in turn, the last one for good."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.models: Answer = plain(json.dumps(MODELS))
        self.pages: dict[str, Callable[[], str]] = {}
        self.posts: dict[str, Callable[[dict[str, Any]], object]] = {}
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.cancelled = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.url = ""
        self.stop: Callable[[], None] = lambda: None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Every path."""
        if request.path == "/v1/models":
            return await self.models(request, {})
        if request.path in self.pages:
            return web.Response(text=self.pages[request.path]())
        if request.method != "POST":
            return web.Response(status=404)
        body = await request.json()
        if request.path in self.posts:
            return web.json_response(self.posts[request.path](body))
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await answer(request, body)
        except (asyncio.CancelledError, ConnectionError):
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1


def word_tokens(body: dict[str, Any]) -> object:
    """llama-server's /tokenize with a token for each word, and one (0) before each prompt."""
    words = body["content"].split()
    return {"tokens": [0] * bool(body.get("add_special")) + [1 + hash(word) % (1 << 30) for word in words]}


def with_words(script: Scripted) -> Scripted:
    """The server as a llama-server whose tokens are words."""
    listed = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "llamacpp"}]}
    script.models = plain(json.dumps(listed))
    script.posts["/tokenize"] = word_tokens
    return script


@contextmanager
def serving(*answers: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """A server with these answers."""
    script = Scripted(answers)
    script.url, script.stop = started(script.handle, tls)
    try:
        yield script
    finally:
        script.stop()
