"""A server with known delays that records when it really sent each token.

    python benchmarks/mock_server.py --port 9000 --first-token 0.2 --per-token 0.02

Streams /v1/completions and /v1/chat/completions in OpenAI's format: the first token `first-token` seconds after the
request arrived, each further one `per-token` seconds after the last was due. GET /log answers and clears the record:
per request its id, when its bytes were there and when each token was handed to the socket, in readings of the system's
monotonic clock, which every process on a machine shares. A request is received when its bytes are there, not when the
server gets round to it: of 64 that arrive together the last one waits some milliseconds, which is no client's error.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
from collections.abc import Callable
from time import perf_counter

from aiohttp import web

from kvlab.load.clock import ArrivalSelector

MODEL = "mock"


class Mock:
    """The delays and the record."""

    def __init__(self, first_token: float, per_token: float, arrival: Callable[[], float]) -> None:
        self.arrival = arrival
        self.first_token = first_token
        self.per_token = per_token
        self.record: list[dict[str, object]] = []

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """One streamed answer."""
        received = self.arrival()
        body = await request.json()
        chat = request.path.endswith("chat/completions")
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        tokens = int(body["max_tokens"])
        key = "delta" if chat else "text"
        word: object = {"content": " word"} if chat else " word"
        event = b"data: %s\n\n" % json.dumps(
            {"id": "mock", "object": "text_completion", "created": 0, "model": MODEL,
             "choices": [{"index": 0, key: word, "logprobs": None, "finish_reason": None}]}
        ).encode()  # fmt: skip
        last = event.replace(b'"finish_reason": null', b'"finish_reason": "length"')
        usage = {"prompt_tokens": len(str(prompt).split()), "completion_tokens": tokens}
        tail = b"data: %s\n\ndata: [DONE]\n\n" % json.dumps({"choices": [], "usage": usage}).encode()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        sent = []
        for index in range(tokens):
            wait = received + self.first_token + index * self.per_token - perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            sent.append(perf_counter())
            await response.write(event if index < tokens - 1 else last + tail)
        self.record.append(
            {"id": request.headers.get("x-request-id") or str(prompt).split(maxsplit=1)[0],
             "received": received, "sent": sent}
        )  # fmt: skip
        await response.write_eof()
        return response

    async def models(self, _: web.Request) -> web.Response:
        """The one model."""
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "mock"}]})

    async def log(self, _: web.Request) -> web.Response:
        """The record since the last call."""
        record, self.record = self.record, []
        return web.json_response(record)


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--first-token", type=float, default=0.2, help="seconds")
    parser.add_argument("--per-token", type=float, default=0.02, help="seconds")
    options = parser.parse_args()
    selector = ArrivalSelector()
    mock = Mock(options.first_token, options.per_token, selector.arrival)
    app = web.Application()
    app.router.add_post("/v1/completions", mock.completions)
    app.router.add_post("/v1/chat/completions", mock.completions)
    app.router.add_get("/v1/models", mock.models)
    app.router.add_get("/log", mock.log)
    gc.freeze()
    loop = asyncio.SelectorEventLoop(selector)
    web.run_app(app, host="127.0.0.1", port=options.port, print=None, access_log=None, loop=loop)


if __name__ == "__main__":
    main()
