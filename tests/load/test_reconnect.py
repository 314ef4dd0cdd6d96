"""Servers that close a connection without saying so, as llama.cpp does after two streamed answers."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from scripted_server import DONE, event, serving, stream, usage

from kvlab.load.runner import run_load
from kvlab.load.spec import LoadSpec, Prompt

GOOD = stream(event("a", "length"), usage(4, 1), DONE)
PROMPTS = [Prompt(id=str(i), text="x", output_tokens=1) for i in range(12)]


def test_a_request_that_meets_a_closing_connection_is_sent_again() -> None:
    answered: dict[object, int] = {}

    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peername")
        answered[peer] = answered.get(peer, 0) + 1
        if answered[peer] > 2:
            request.transport.close()
        return await GOOD(request, body)

    with serving(answer) as server:
        result = run_load(server.url, PROMPTS, LoadSpec(concurrency=3))
    assert [row.error for row in result.rows] == [None] * 12
    # After the first surprise every request has a connection of its own.
    assert len(answered) > 6


def test_a_server_that_hangs_up_on_everyone_is_not_asked_for_ever() -> None:
    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if len(server.bodies) > 1:
            assert request.transport is not None
            request.transport.close()
        return await GOOD(request, body)

    with serving(answer) as server:
        result = run_load(server.url, PROMPTS[:4], LoadSpec(concurrency=1))
    assert [row.error for row in result.rows] == [None] + ["cut: the connection broke after 0 chunks"] * 3
    assert len(server.bodies) == 5
