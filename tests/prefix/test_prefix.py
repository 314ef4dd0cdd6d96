"""The prefix experiment on known timings, and over HTTP against a server with a prefix cache of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aiohttp import web

from kvlab.core.errors import BadInput, EngineFailed
from kvlab.core.measure import PoolUse, RequestRow
from kvlab.sharing import POLICY, judge_prefix, round_prompts, run_prefix


@contextmanager
def caching_server(*, caches: bool, counts: bool) -> Iterator[tuple[str, list[str]]]:
    """Takes 20 ms, and 0.1 ms a word of prompt that no earlier prompt began with; `counts`: its usage says so."""
    seen: list[str] = []

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})

    async def complete(request: web.Request) -> web.StreamResponse:
        prompt = (await request.json())["prompt"]
        words = prompt.split()
        cached = max((_common(words, earlier.split()) for earlier in seen), default=0) if caches else 0
        seen.append(prompt)
        await asyncio.sleep(0.02 + 0.0001 * (len(words) - cached))
        usage: dict[str, object] = {"prompt_tokens": len(words), "completion_tokens": 1}
        if counts:
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        first = {"choices": [{"text": "Yes"}]}
        last = {"choices": [{"text": "", "finish_reason": "length"}], "usage": usage}
        for event in (first, last):
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    app = web.Application()
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/completions", complete)
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(app)
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", seen
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _common(one: list[str], two: list[str]) -> int:
    same = 0
    for left, right in zip(one, two, strict=False):
        if left != right:
            break
        same += 1
    return same


def test_a_cache_that_hits_is_seen_in_time_and_in_tokens() -> None:
    done: list[tuple[int, int]] = []
    with caching_server(caches=True, counts=True) as (url, sent):
        found = run_prefix(
            url, rounds=3, prefix_tokens=1200, progress=lambda number, total: done.append((number, total))
        )
    assert found.verdict == "prefix caching works"
    assert found.speedup.low > 1.5
    assert found.cold_ttft.value > found.warm_ttft.value
    assert found.cached_share is not None
    assert found.cached_share > 0.9
    assert [(request.round, request.position) for request in found.requests] == [
        (r, p) for r in range(3) for p in range(4)
    ]
    assert all(request.cached_tokens == 0 for request in found.requests if request.position == 0)
    assert done[-1] == (12, 12)
    measured = sent[1:]  # the first one warms up
    assert len({prompt.split()[0] for prompt in measured}) == 3


def test_a_server_without_a_cache_is_told_where_to_look() -> None:
    with caching_server(caches=False, counts=True) as (url, _):
        found = run_prefix(url, rounds=3, prefix_tokens=1200)
    assert found.verdict == "prefix caching gives nothing"
    assert found.cached_share == 0.0
    assert "look for variable text at the front" in found.because


def test_a_server_that_does_not_count_is_judged_by_time() -> None:
    with caching_server(caches=True, counts=False) as (url, _):
        found = run_prefix(url, rounds=3, prefix_tokens=1200)
    assert found.cached_share is None
    assert found.verdict == "prefix caching works"
    assert "does not say how many tokens" in found.because


def test_a_round_shares_all_but_the_question_and_rounds_share_nothing() -> None:
    one, other = (round_prompts(name, warm=3, prefix_tokens=8280) for name in ("3f-0", "a2-1"))
    assert one[0].count(POLICY) == 120
    assert len(set(one)) == 4
    shared = one[0][: one[0].index("Customer:")]
    assert all(prompt.startswith(shared) for prompt in one)
    assert other[0][0] != one[0][0]


def rows(times: list[float | None], cached: int | None = None, tokens: int = 1000) -> list[RequestRow]:
    return [
        RequestRow(
            index=i,
            prompt_id=str(i),
            scheduled=0.0,
            sent=0.0,
            ttft=time,
            prompt_tokens=tokens,
            cached_tokens=cached,
            error=None if time is not None else "http 500: no room",
        )
        for i, time in enumerate(times)
    ]


def test_the_speedup_is_cold_over_warm_per_round() -> None:
    found = judge_prefix(rows([7.0, 0.2, 0.2, 7.0, 0.2, 0.2], 990), PoolUse(), warm=2)
    assert found.speedup.value == pytest.approx(35)
    assert found.cached_share == pytest.approx(0.99)


def test_counters_of_the_engine_stand_in_for_missing_usage() -> None:
    """Hits over the run are 0.6; two of three requests are warm and cold ones cannot hit: 0.9 of the warm tokens."""
    found = judge_prefix(rows([7.0, 0.2, 0.2, 7.0, 0.2, 0.2]), PoolUse(prefix_hit_rate=0.6), warm=2)
    assert found.cached_share == pytest.approx(0.9)
    assert "the engine's counters" in found.because


@pytest.mark.parametrize("cached", [-5, 1001, 1 << 41])
def test_counts_that_cannot_be_are_no_share(cached: int) -> None:
    found = judge_prefix(rows([0.2, 0.1, 0.1] * 3, cached), PoolUse(), warm=2)
    assert found.cached_share is None
    for rate in (-0.5, 1.5, float("nan")):
        assert judge_prefix(rows([0.2, 0.1, 0.1] * 3), PoolUse(prefix_hit_rate=rate), warm=2).cached_share is None


def test_a_contradiction_between_time_and_count_is_inconclusive() -> None:
    fast_uncached = judge_prefix(rows([7.0, 0.2, 0.2, 7.0, 0.2, 0.2], 0), PoolUse(), warm=2)
    assert fast_uncached.verdict == "inconclusive"
    assert "something else" in fast_uncached.because
    slow_cached = judge_prefix(rows([0.2, 0.21, 0.2, 0.19, 0.2, 0.2], 990), PoolUse(), warm=2)
    assert slow_cached.verdict == "inconclusive"
    assert "the cold prompts came from the cache too" in slow_cached.because


def test_failed_requests_are_said_and_one_round_is_not_enough() -> None:
    found = judge_prefix(rows([7.0, 0.2, None, 7.0, 0.2, 0.2, None, 0.2, 0.2], 990), PoolUse(), warm=2)
    assert found.rounds == 3
    assert len(found.requests) == 7
    assert "2 of 9 requests failed (http 500: no room)" in found.because
    with pytest.raises(EngineFailed, match="needs two rounds"):
        judge_prefix(rows([7.0, 0.2, 0.2, None, 0.2, 0.2]), PoolUse(), warm=2)


@pytest.mark.parametrize(("rounds", "warm", "tokens"), [(1, 3, 500), (3, 1, 500), (3, 8, 500), (3, 3, 10)])
def test_settings_without_an_answer_are_refused(rounds: int, warm: int, tokens: int) -> None:
    with pytest.raises(BadInput):
        run_prefix("http://127.0.0.1:9", rounds=rounds, warm=warm, prefix_tokens=tokens)
