"""Servers that never stop, that nest, that lie about tokens, and addresses that carry passwords."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import DONE, MODELS, Scripted, event, plain, serving, stream, usage

from kvlab.attach import read_server
from kvlab.core.errors import BadInput, KvlabError, ServerRefused
from kvlab.core.scrape import believed
from kvlab.engines import metric_map, names
from kvlab.load import pages
from kvlab.load.address import authorization, base_url, shown
from kvlab.load.bench import BenchSpec, bench
from kvlab.load.datasets import PromptsFile, RandomTokens
from kvlab.load.reply import Asked, Reply, server_message
from kvlab.load.runner import run_load
from kvlab.load.spec import LoadSpec, Prompt

DEEP = "[" * 100_000


async def endless(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" " * (1 << 16))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test reaches at once."""
    from kvlab import attach
    from kvlab.load import exact, sampler, server

    monkeypatch.setattr(server, "MODELS_BYTES", 1 << 18)
    monkeypatch.setattr(exact, "TOKENS_BYTES", 1 << 18)
    monkeypatch.setattr(attach, "METRICS_BYTES", 1 << 18)
    monkeypatch.setattr(sampler, "METRICS_BYTES", 1 << 18)


def prompts(folder: Path, text: str = "Say something.") -> PromptsFile:
    path = folder / "prompts.txt"
    path.write_text(text)
    return PromptsFile(path=str(path), output_tokens=4)


def owned(by: str) -> str:
    return json.dumps(MODELS | {"data": [{"id": "m", "owned_by": by}]})


@pytest.mark.usefixtures("small")
def test_a_list_of_models_without_end() -> None:
    with serving(stream(DONE)) as server:
        server.models = endless
        with pytest.raises(ServerRefused, match="/v1/models sends more than 262,144 bytes"):
            read_server(server.url)


@pytest.mark.usefixtures("small")
def test_a_tokenizer_without_end() -> None:
    with serving(endless) as server:
        server.models = plain(owned("llamacpp"))
        spec = BenchSpec(dataset=RandomTokens(input_tokens=8, output_tokens=2), load=LoadSpec(concurrency=1))
        with pytest.raises(ServerRefused, match="/tokenize sends more than"):
            bench(server.url, msgspec_replace(spec, num_prompts=1))


@pytest.mark.usefixtures("small")
def test_metrics_without_end(tmp_path: Path) -> None:
    with serving(stream(event("a"), event("b", "length"), usage(3, 2), DONE)) as server:
        server.models = plain(owned("vllm"))
        server.pages["/metrics"] = lambda: "vllm:num_requests_running 1\n" * 40_000
        with pytest.raises(ServerRefused, match="/metrics sends more than"):
            read_server(server.url)
        result = bench(server.url, BenchSpec(dataset=prompts(tmp_path), load=LoadSpec(concurrency=1)))
    assert result.samples == ()
    assert result.metrics["completed"] == 1


def msgspec_replace(spec: BenchSpec, **changes: Any) -> BenchSpec:
    import msgspec

    return msgspec.structs.replace(spec, **changes)


def test_an_answer_without_end() -> None:
    async def forever(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(event("x" * 60_000))
            await asyncio.sleep(0)

    good = stream(event("a", "length"), usage(3, 1), DONE)
    with serving(forever, good) as server:
        load = [Prompt(id=str(index), text="go", output_tokens=1) for index in range(2)]
        rows = run_load(server.url, load, LoadSpec(concurrency=1)).rows
    assert rows[0].error is not None
    assert rows[0].error.startswith("endless: ")
    assert rows[1].error is None


def test_an_event_without_end() -> None:
    reply = Reply(False)
    reply.received(5 << 20, 5 << 20)
    assert reply.error == "bad event: it has no end after 5,242,880 bytes"


@pytest.mark.parametrize("payload", [f'{{"error": {DEEP}', f'{{"choices": [{{"delta": {{"tool_calls": {DEEP}', DEEP])
def test_deep_json_is_an_error_row(payload: str) -> None:
    reply = Reply(False)
    reply.take(payload.encode(), 1.0)
    assert reply.error is not None
    assert len(reply.error) < 400
    assert len(server_message(payload.encode())) <= 160


def test_deep_answers_of_a_server() -> None:
    with serving(plain(DEEP)) as server:
        server.models = plain(f'{{"data": {DEEP}')
        with pytest.raises(ServerRefused, match="instead of a JSON list of models"):
            read_server(server.url)


@pytest.mark.parametrize(
    ("told", "left", "doubt"),
    [
        ((-3, 2, None), (None, 2, None), "prompt_tokens -3"),
        ((3, -2, None), (3, 2, None), "completion_tokens -2"),
        ((1 << 41, 2, 5), (None, 2, None), "prompt_tokens"),
        ((3, 1 << 41, None), (3, 2, None), "completion_tokens"),
        ((3, 5000, None), (3, 2, None), "completion_tokens 5000"),
        ((8, 2, 9), (8, 2, None), "cached_tokens 9 of 8"),
        ((8, 2, -1), (8, 2, None), "cached_tokens -1"),
        ((8, 2, 8), (8, 2, 8), None),
    ],
)
def test_usage_that_cannot_be_true_is_left_out(
    told: tuple[int, int, int | None], left: tuple[int | None, int, int | None], doubt: str | None
) -> None:
    with serving(stream(event("a"), event("b", "length"), usage(*told), DONE)) as server:
        row = run_load(server.url, [Prompt(id="0", text="go", output_tokens=2)], LoadSpec(concurrency=1)).rows[0]
    assert row.error is None
    assert (row.prompt_tokens, row.output_tokens, row.cached_tokens) == left
    assert (row.doubt is None) is (doubt is None)
    assert doubt is None or doubt in (row.doubt or "")


def test_a_bench_says_what_it_did_not_believe(tmp_path: Path) -> None:
    with serving(stream(event("a"), event("b", "length"), usage(-3, -2), DONE)) as server:
        result = bench(server.url, BenchSpec(dataset=prompts(tmp_path), load=LoadSpec(concurrency=1), warm_up=0))
    assert result.metrics["total_output_tokens"] == 2
    assert result.metrics["total_input_tokens"] is None
    assert any("1 of 1 answers state numbers that cannot be" in remark for remark in result.remarks)


@given(
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    st.integers(1, 10_000),
)
def test_what_is_left_of_any_usage_can_be_true(
    prompt: int | None, output: int | None, cached: int | None, asked: int
) -> None:
    reply = Reply(False, Asked(output_tokens=asked, prompt_tokens=asked))
    told = {"prompt_tokens": prompt, "completion_tokens": output, "prompt_tokens_details": {"cached_tokens": cached}}
    reply.take(json.dumps({"choices": [], "usage": told}).encode(), 1.0)
    reply.settle()
    assert reply.output_tokens is None or 0 <= reply.output_tokens <= asked
    assert reply.prompt_tokens is None or 0 <= reply.prompt_tokens <= asked
    assert reply.cached_tokens is None or 0 <= reply.cached_tokens <= (reply.prompt_tokens or asked)


def test_metrics_that_cannot_be_true_were_not_seen() -> None:
    told = {"running": -1.0, "waiting": float("nan"), "kv_tokens": 1e300, "kv_used_ratio": 1.5, "slots": 4.0}
    assert believed(told) == {"slots": 4.0}
    assert believed({"kv_used_ratio": 1.0}) == {"kv_used_ratio": 1.0}


@pytest.mark.parametrize(
    "slot",
    [
        '"n_ctx": 0, "is_processing": true',
        '"n_ctx": -4, "is_processing": true, "n_prompt_tokens": -1',
        f'"n_ctx": 5, "is_processing": true, "n_prompt_tokens": {"9" * 400}',
        f'"n_ctx": 5, "is_processing": true, "next_token": [{{"n_decoded": {1 << 60}}}]',
        f'"n_ctx": 5, "is_processing": true, "x": {DEEP}',
    ],
)
def test_slots_that_cannot_be(slot: str) -> None:
    with pytest.raises(BadInput, match="/slots is not llama-server's list"):
        metric_map("llamacpp").read({"/slots": f"[{{{slot}}}]"})


LINES = st.from_regex(r"(vllm|llamacpp):[a-z_]{3,20}(\{[a-z_]+=\"[0-9.e-]{0,9}\"\})? [0-9.e+-]{1,9}\n", fullmatch=True)


@given(st.sampled_from(sorted(names())), st.one_of(st.text(max_size=80), LINES), st.integers(0, 3))
def test_any_page_of_metrics_is_read_or_refused(engine: str, page: str, at: int) -> None:
    refused = ""
    try:
        metrics = metric_map(engine)
    except ModuleNotFoundError:
        return  # an engine without metrics
    try:
        metrics.read({metrics.paths[at % len(metrics.paths)]: page})
    except KvlabError as error:
        refused = str(error)
    assert len(refused.splitlines()) <= 1


@pytest.mark.parametrize(
    "url",
    [
        f"http://{'a' * 64}.example:8000",
        "http://a..b:8000",
        "http://xn--\ud800:8000",
        "http://ho st:8000",
        "http://[::1:8000",
        "http://host:99999",
        "http://host:0",
        "http://",
        "ftp://host",
        "http://" + "a." * 2000,
        "http://a\x00b:1",
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(BadInput, match="is not an") as refused:
        base_url(url)
    assert len(str(refused.value)) < 300
    with pytest.raises(BadInput):
        read_server(url)


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("http://me:s3cret@host:8000/v1/", "http://host:8000"),
        ("me:s3cret@host:8000", "http://host:8000"),
        ("https://me@host/x/v1", "https://host/x"),
        ("http://host:1", "http://host:1"),
        ("http://münchen.example", "http://münchen.example"),
    ],
)
def test_an_address_without_its_password(url: str, clean: str) -> None:
    assert base_url(url) == clean
    assert "s3cret" not in shown(url)


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    refused = ""
    try:
        assert "@" not in base_url(text).partition("://")[2].partition("/")[0]
        authorization(text)
    except BadInput as error:
        refused = str(error)
    assert len(refused.splitlines()) <= 1


@pytest.fixture
def guarded() -> Iterator[Scripted]:
    """A server that repeats what it was sent as a password."""

    async def repeat(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        sent = request.headers.get("Authorization", "")
        pair = base64.b64decode(sent.removeprefix("Basic ")).decode()
        return web.Response(status=500, text=f"no {sent} {pair} {pair.partition(':')[2]}")

    with serving(repeat) as server:
        yield server


def test_a_password_is_sent_and_shown_nowhere(guarded: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    address = guarded.url.replace("http://", "http://me:s3cr%40t@")
    with pytest.raises(ServerRefused) as refused:
        run_load(address, [Prompt(id="0", text="go", output_tokens=2)], LoadSpec(concurrency=1))
    assert guarded.headers[0]["Authorization"] == "Basic " + base64.b64encode(b"me:s3cr@t").decode()
    guarded.models = guarded.answers[0]
    with pytest.raises(ServerRefused) as again:
        read_server(address)
    for line in (str(refused.value), str(again.value), capsys.readouterr().err):
        assert "s3cr" not in line
        assert base64.b64encode(b"me:s3cr@t").decode() not in line


def test_a_key_that_no_header_can_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAB_API_KEY", "one\ntwo")
    with pytest.raises(BadInput, match="KVLAB_API_KEY holds a line break") as refused:
        read_server("http://127.0.0.1:9")
    assert "two" not in str(refused.value)


def test_limits_are_far_above_real_pages() -> None:
    assert min(pages.MODELS_BYTES, pages.METRICS_BYTES, pages.TOKENS_BYTES) >= 1 << 22
