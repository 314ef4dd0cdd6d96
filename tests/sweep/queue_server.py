"""A server on loopback with a known number of places and a known time per request: vLLM's pages, no model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any

from aiohttp import web

from loopback import started

MODELS = {"object": "list", "data": [{"id": "queue", "object": "model", "owned_by": "vllm"}]}


class Places:
    """What the server has seen, and its metrics."""

    def __init__(self, places: int, seconds: float) -> None:
        self.seconds = seconds
        self.free = asyncio.Semaphore(places)
        self.places = places
        self.running = self.waiting = 0
        self.prompts: list[str] = []
        self.held_from: int | None = None
        """Requests from this one on, counted from 0, wait until it is None again."""
        self.words: dict[str, int] = {}
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Every path."""
        if request.path == "/v1/models":
            return web.json_response(MODELS)
        if request.path == "/metrics":
            return web.Response(text=self._metrics())
        body = await request.json()
        if request.path == "/tokenize":
            return web.json_response({"tokens": [self._id(word) for word in body["prompt"].split()]})
        if request.path == "/detokenize":
            names = {number: word for word, number in self.words.items()}
            return web.json_response({"prompt": " ".join(names[number] for number in body["tokens"])})
        return await self._complete(request, body)

    def _id(self, word: str) -> int:
        return self.words.setdefault(word, len(self.words))

    async def _complete(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        number = len(self.prompts)
        self.prompts.append(body["prompt"])
        self.waiting += 1
        while self.held_from is not None and number >= self.held_from:
            await asyncio.sleep(0.01)
        async with self.free:
            self.waiting -= 1
            self.running += 1
            try:
                return await self._stream(request, body)
            finally:
                self.running -= 1

    async def _stream(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        count = int(body["max_tokens"])
        for at in range(count):
            await asyncio.sleep(self.seconds / count)
            end = "length" if at == count - 1 else None
            await response.write(_event({"choices": [{"index": 0, "text": "a", "finish_reason": end}]}))
        counts = {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": count}
        await response.write(_event({"choices": [], "usage": counts}) + b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    def _metrics(self) -> str:
        label = '{engine="0",model_name="queue"}'
        return (
            f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{label} {self.running}\n"
            f"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{label} {self.waiting}\n"
            f"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{label} {self.running / self.places}\n"
        )


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


@contextmanager
def queueing(places: int, seconds: float, tls: SSLContext | None = None) -> Iterator[Places]:
    """The server, in a thread of its own."""
    script = Places(places, seconds)
    script.url, stop = started(script.handle, tls)
    try:
        yield script
    finally:
        stop()
