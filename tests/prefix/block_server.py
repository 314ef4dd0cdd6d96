"""A server with a prefix cache of blocks, small enough to follow by hand: what vLLM promises, written independently.

A prompt is cut into whole blocks; a block is known by its tokens and all before them, and by the request's cache_salt.
The cache keeps as many blocks as it has, the least recently used go first, of one request the last one first.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web


class BlockServer:
    """`usage`: whether answers state cached tokens; `metrics`: whether the counters are served; `slow`: s a token."""

    def __init__(self, **options: Any) -> None:
        self.block: int = options.get("block", 16)
        self.blocks: int = options.get("blocks", 1 << 20)
        self.stated_blocks: int = options.get("stated_blocks", self.blocks)
        self.salts: str = options.get("salts", "honoured")
        self.usage: bool = options.get("usage", True)
        self.metrics: bool = options.get("metrics", True)
        self.tokenizer: bool = options.get("tokenizer", True)
        self.slow: float = options.get("slow", 0.0)
        self.stated_block: int = options.get("stated_block", self.block)
        self.others: int = options.get("others", 0)
        """Prompt tokens of other clients that the counters hold for each request."""
        self.limit: int = options.get("limit", 4096)
        self.held: OrderedDict[object, None] = OrderedDict()
        self.queries = self.hits = self.ended = 0
        self.url = ""

    def look_up(self, prompt: list[int], salt: str | None) -> int:
        """Cached tokens of the prompt; afterwards its blocks count as used."""
        names: list[object] = []
        before: object = salt if self.salts == "honoured" else None
        for start in range(0, len(prompt) - self.block + 1, self.block):
            before = hash((before, tuple(prompt[start : start + self.block])))
            names.append(before)
        most = (len(prompt) - 1) // self.block
        found = next((at for at, name in enumerate(names[:most]) if name not in self.held), min(most, len(names)))
        for name in reversed(names):
            self.held.pop(name, None)
            self.held[name] = None
        while len(self.held) > self.blocks:
            self.held.popitem(last=False)
        return found * self.block

    async def complete(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if self.salts == "refused" and "cache_salt" in asked:
            return web.json_response({"error": {"message": "unknown field cache_salt"}}, status=400)
        prompt = asked["prompt"]
        tokens = prompt if isinstance(prompt, list) else [hash(word) for word in prompt.split()]
        if len(tokens) >= self.limit:
            return web.json_response({"error": {"message": f"at most {self.limit} tokens"}}, status=400)
        cached = self.look_up(tokens, asked.get("cache_salt"))
        if self.slow:
            await asyncio.sleep(0.001 + self.slow * (len(tokens) - cached))
        self.queries += len(tokens) + self.others
        self.hits += cached
        self.ended += 2 if self.others else 1
        usage: dict[str, object] = {"prompt_tokens": len(tokens), "completion_tokens": 1}
        if self.usage:
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in (
            {"choices": [{"text": "a"}]},
            {"choices": [{"text": "", "finish_reason": "length"}], "usage": usage},
        ):
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    async def models(self, request: web.Request) -> web.Response:
        model = {"id": "m", "owned_by": "vllm", "max_model_len": self.limit}
        return web.json_response({"data": [model]})

    async def tokenize(self, request: web.Request) -> web.Response:
        if not self.tokenizer:
            return web.json_response({"detail": "Not Found"}, status=404)
        words = (await request.json())["prompt"].split()
        return web.json_response({"tokens": [1000 + sum(word.encode()) for word in words]})

    async def page(self, request: web.Request) -> web.Response:
        if not self.metrics:
            return web.Response(status=404)
        labels = 'engine="0",model_name="m"'
        config = f'block_size="{self.stated_block}",num_gpu_blocks="{self.stated_blocks + 1}"'
        lines = [
            "# TYPE vllm:cache_config_info gauge",
            f'vllm:cache_config_info{{{config},engine="0"}} 1.0',
            *(
                f"# TYPE {name} counter\n{name}_total{{{labels}}} {value}.0"
                for name, value in (
                    ("vllm:prompt_tokens", self.queries),
                    ("vllm:prefix_cache_queries", self.queries),
                    ("vllm:prefix_cache_hits", self.hits),
                )
            ),
            f'# TYPE vllm:request_success counter\nvllm:request_success_total{{finished_reason="length",{labels}}}'
            f" {self.ended}.0",
        ]
        return web.Response(text="\n".join(lines) + "\n")


@contextmanager
def block_server(**options: Any) -> Iterator[BlockServer]:
    """A server on loopback; see `BlockServer` for the options."""
    server = BlockServer(**options)
    app = web.Application(client_max_size=1 << 24)
    app.router.add_get("/v1/models", server.models)
    app.router.add_post("/v1/completions", server.complete)
    app.router.add_post("/tokenize", server.tokenize)
    app.router.add_get("/metrics", server.page)
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(app)
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
