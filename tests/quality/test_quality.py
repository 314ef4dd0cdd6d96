"""The quality gate: on answers whose truth is known, and over HTTP against a loopback server."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from kvlab.answers import Answer, Sent, collect_answers, judge_quality, shared_prefix
from kvlab.core.errors import BadInput, EngineFailed, ServerRefused
from kvlab.core.quality import QualityPrompt

Say = Callable[[dict[str, Any]], str | None]


@contextmanager
def server(say: Say) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An OpenAI-compatible server on loopback that streams what `say` returns, or answers 500 for None."""
    bodies: list[dict[str, Any]] = []

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})

    async def complete(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        bodies.append(body | {"path": request.path})
        text = say(body)
        if text is None:
            return web.json_response({"error": {"message": "no room"}}, status=500)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for part in (text[:3], text[3:]):
            choice = {"text": part} if request.path == "/v1/completions" else {"delta": {"content": part}}
            await response.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
        last = {"choices": [{"text": "", "finish_reason": "stop"}], "usage": {"completion_tokens": 5}}
        await response.write(b"data: " + json.dumps(last).encode() + b"\n\ndata: [DONE]\n\n")
        return response

    app = web.Application()
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/completions", complete)
    app.router.add_post("/v1/chat/completions", complete)
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(app)
    loop.run_until_complete(runner.setup())
    site = web.TCPSite(runner, "127.0.0.1", 0)
    loop.run_until_complete(site.start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", bodies
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def answers(texts: Sequence[str | None], kind: str = "facts") -> list[Answer]:
    return [
        Answer(prompt_id=str(i), kind=kind, prompt=f"p{i}", text=text, error=None if text is not None else "http 500")
        for i, text in enumerate(texts)
    ]


def sentences(count: int, changed: float, seed: int, words: int = 20) -> list[str | None]:
    """`count` sentences of their own, of which a share `changed` parts somewhere from what seed 0 would say."""
    rng = random.Random(seed)
    found: list[str | None] = []
    for i in range(count):
        text = [f"{i}w{j}" for j in range(words)]
        if rng.random() < changed:
            at = rng.randrange(words)
            text[at:] = [f"other{seed}-{j}" for j in range(words - at)]
        found.append(" ".join(text))
    return found


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [
        ("a b c d", "a b x d e", 2 / 5),
        ("Paris.", "Paris.", 1.0),
        ("Paris", "London", 0.0),
        ("", "", 1.0),
        ("", "a", 0.0),
        ("a  b\n", "a b", 1.0),
        ("巴黎是法国的首都", "巴黎是法国的城市", 6 / 8),
    ],
)
def test_the_shared_prefix_counts_words_of_the_longer_answer(a: str, b: str, share: float) -> None:
    assert shared_prefix(a, b) == pytest.approx(share)


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_shared_prefix_is_a_share_and_symmetric(a: str, b: str) -> None:
    assert 0 <= shared_prefix(a, b) == shared_prefix(b, a) <= 1
    assert shared_prefix(a, a) == 1


def test_a_lossless_arm_is_within_the_noise_floor() -> None:
    same = answers(sentences(48, 0, 0))
    found = judge_quality(same, same, same, max_tokens=64, seed=1)
    assert found.verdict == "within the noise floor"
    assert found.candidate is not None
    assert found.candidate.identical.value == 1.0
    assert found.candidate.identical.low == pytest.approx(0.9259, abs=1e-4)  # Wilson, 48 of 48
    assert found.divergences == ()


def test_noise_alone_is_seldom_below_the_noise_floor() -> None:
    """Three runs that each part from the truth in 30 % of the answers: a 95 % interval errs on this side in 2.5 %."""
    wrong = 0
    for seed in range(0, 300, 3):
        a1, a2, b = (answers(sentences(48, 0.3, seed + i)) for i in range(3))
        wrong += judge_quality(a1, a2, b, max_tokens=64, seed=seed).verdict == "below the noise floor"
    assert wrong <= 7


def test_an_arm_that_changes_every_answer_is_below_the_noise_floor() -> None:
    a1, a2, b = answers(sentences(48, 0.1, 1)), answers(sentences(48, 0.1, 2)), answers(sentences(48, 0.9, 3))
    found = judge_quality(a1, a2, b, max_tokens=64, seed=1)
    assert found.verdict == "below the noise floor"
    assert len(found.divergences) == 12
    shares = [pair.shared_prefix for pair in found.divergences]
    assert shares == sorted(shares)


def test_failed_answers_are_counted_and_left_out() -> None:
    a1 = answers(["yes"] * 20)
    b = answers([None, *["yes"] * 18, "no"])
    found = judge_quality(a1, a1, b, max_tokens=8, seed=1)
    assert found.candidate is not None
    assert found.noise_floor is not None
    assert (found.candidate.prompts, found.candidate.failed, found.noise_floor.failed) == (20, 1, 0)
    assert found.candidate.identical.value == pytest.approx(18 / 19)
    assert found.by_kind["facts"] == pytest.approx((1.0, 18 / 19))
    assert [(pair.prompt_id, pair.a, pair.b) for pair in found.divergences] == [("19", "yes", "no")]


def test_too_many_failures_too_few_prompts_and_empty_answers_are_inconclusive() -> None:
    full = answers(["yes"] * 20)
    cases = {
        "may be the easy ones": (full, answers([None] * 5 + ["yes"] * 15)),
        "a verdict needs 10": (answers(["yes"] * 6), answers(["no"] * 6)),
        "ends at once": (answers([""] * 11 + ["yes"] * 9), full),
    }
    for reason, (a, b) in cases.items():
        found = judge_quality(a, a, b, max_tokens=8, seed=1)
        assert found.verdict == "inconclusive"
        assert reason in found.because


def test_sets_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(BadInput, match="different prompts"):
        judge_quality(answers(["a"]), answers(["a"]), answers(["a", "b"]), max_tokens=8, seed=1)
    with pytest.raises(EngineFailed, match=r"none of the 3 quality prompts .*http 500"):
        judge_quality(answers(["a"] * 3), answers(["a"] * 3), answers([None] * 3), max_tokens=8, seed=1)


PROMPTS = tuple(QualityPrompt(f"q{i}", "facts", f"prompt {i}") for i in range(6))


@pytest.mark.parametrize("chat", [False, True])
def test_answers_come_back_in_order_with_failures_as_answers(chat: bool) -> None:
    def say(body: dict[str, Any]) -> str | None:
        prompt = str(body["messages"][0]["content"] if chat else body["prompt"])
        return None if prompt == "prompt 2" else f"answer to {prompt}"

    seen: list[tuple[int, int]] = []
    with server(say) as (url, bodies):
        found = collect_answers(
            url,
            PROMPTS,
            max_tokens=7,
            concurrency=3,
            sent=Sent(chat=chat),
            progress=lambda done, total: seen.append((done, total)),
        )
    assert [answer.prompt_id for answer in found] == ["q0", "q1", "q2", "q3", "q4", "q5"]
    assert [answer.text for answer in found if answer.prompt_id != "q2"] == [
        f"answer to prompt {i}" for i in (0, 1, 3, 4, 5)
    ]
    assert found[2].text is None
    assert found[2].error is not None
    assert "no room" in found[2].error
    assert seen[-1] == (6, 6)
    for body in bodies:
        assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 0, 7)
        assert "ignore_eos" not in body
        assert body["path"] == ("/v1/chat/completions" if chat else "/v1/completions")


def test_a_server_that_answers_nothing_is_one_line() -> None:
    with server(lambda body: None) as (url, _), pytest.raises(ServerRefused, match="no room"):
        collect_answers(url, PROMPTS, max_tokens=7)
    with pytest.raises(BadInput, match="max_tokens"):
        collect_answers(url, PROMPTS, max_tokens=0)
