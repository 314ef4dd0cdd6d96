"""A server with known delays that records when it really received each request and sent each token.

    python benchmarks/mock_server.py --port 9000 --first-token 0.2 --per-token 0.02

Streams /v1/completions and /v1/chat/completions in OpenAI's format: the first token `first-token` seconds after the
request arrived, each further one `per-token` seconds after the last was due. GET /log answers and clears the record:
per request its id, a checksum of its prompt, when it was received and when each token was handed to the socket, in
readings of the system's monotonic clock, which every process on a machine shares.

Written on bare asyncio: with a web framework, reading 64 requests that arrive together takes longer than what is to be
measured, on the same processors.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import zlib
from time import perf_counter
from typing import Any, NamedTuple

MODEL = "mock"
_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Delays(NamedTuple):
    """Seconds."""

    first_token: float
    per_token: float


class Connection(asyncio.Protocol):
    """One client connection, kept open for further requests."""

    def __init__(self, delays: Delays, record: list[dict[str, object]]) -> None:
        self._delays = delays
        self._record = record
        self._data = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer once the whole request is there."""
        received = perf_counter()
        self._data += data
        head, found, body = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if len(body) < int(headers.get("content-length", 0)):
            return
        self._data = b""
        path = lines[0].split()[1]
        if path == "/log":
            self._json(self._record)
            self._record.clear()
        elif path.endswith("completions"):
            self._stream(path, json.loads(body), received, headers.get("x-request-id"))
        else:
            self._json({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "mock"}]})

    def _json(self, document: object) -> None:
        body = json.dumps(document).encode()
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )

    def _stream(self, path: str, body: dict[str, Any], received: float, name: str | None) -> None:
        chat = path.endswith("chat/completions")
        prompt = str(body["messages"][-1]["content"] if chat else body["prompt"])
        # Chat clients ask by either name.
        tokens = int(body["max_tokens"] if "max_tokens" in body else body["max_completion_tokens"])
        sent: list[float] = []
        mark = zlib.crc32(prompt.encode())
        self._record.append(
            {"id": name or prompt.split(maxsplit=1)[0], "prompt": mark, "received": received, "sent": sent}
        )
        token, last = (_chunk(_event(chat, finish)) for finish in (None, "length"))
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = {"choices": [], "usage": {"prompt_tokens": len(prompt.split()), "completion_tokens": tokens}}
            last += _chunk(b"data: %s\n\n" % json.dumps(usage).encode())
        last += _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        loop = asyncio.get_running_loop()

        def send() -> None:
            if self._transport.is_closing():
                return
            sent.append(perf_counter())
            head = _STREAM if len(sent) == 1 else b""
            self._transport.write(head + (token if len(sent) < tokens else last))
            if len(sent) < tokens:
                loop.call_at(start + len(sent) * self._delays.per_token, send)

        # The loop's clock and perf_counter may differ by a constant.
        start = received + self._delays.first_token + loop.time() - perf_counter()
        loop.call_at(start, send)


def _event(chat: bool, finish: str | None) -> bytes:
    word: dict[str, object] = {"delta": {"content": " word"}} if chat else {"text": " word"}
    choice = {"index": 0, **word, "logprobs": None, "finish_reason": finish}
    document = {"id": "mock", "object": "text_completion", "created": 0, "model": MODEL, "choices": [choice]}
    return b"data: %s\n\n" % json.dumps(document).encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def serve(port: int, delays: Delays) -> None:
    """Serve on loopback until cancelled."""
    record: list[dict[str, object]] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(delays, record), "127.0.0.1", port, backlog=1024)
    gc.freeze()
    async with server:
        await server.serve_forever()


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--first-token", type=float, default=0.2, help="seconds")
    parser.add_argument("--per-token", type=float, default=0.02, help="seconds")
    options = parser.parse_args()
    asyncio.run(serve(options.port, Delays(options.first_token, options.per_token)))


if __name__ == "__main__":
    main()
