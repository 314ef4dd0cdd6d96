from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from scripted_server import DONE, Answer, chat_event, event, plain, serving, stream, usage

from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.measure import RequestRow
from kvlab.core.metric_map import MetricMap
from kvlab.load.runner import run_load
from kvlab.load.spec import LoadSpec, Progress, Prompt

PROMPT = Prompt(id="p", text="Once upon a time", output_tokens=4)
ONE = LoadSpec(concurrency=1, timeout=5)
GOOD = stream(event("a"), event("b"), event("c", "length"), usage(4, 3, 2), DONE)


def one_row(answer: Answer, spec: LoadSpec = ONE) -> RequestRow:
    """The row of the first of two requests; the second succeeds, so that the run as a whole does."""
    good = stream(chat_event(role="assistant", content="x"), chat_event("stop"), DONE)
    with serving(answer, good if spec.endpoint == "chat" else GOOD) as server:
        return run_load(server.url, [PROMPT, PROMPT], spec).rows[0]


def test_a_complete_answer() -> None:
    """A busy machine makes some answers late, none early."""
    answer = stream(0.05, event("a"), 0.05, event("b"), 0.05, event("c", "length"), usage(4, 3, 2), DONE)
    with serving(answer) as server:
        rows = run_load(server.url, [PROMPT] * 8, ONE).rows
    for row in rows:
        assert row.error is None
        assert (row.prompt_tokens, row.output_tokens, row.cached_tokens, row.tokens_from) == (4, 3, 2, "usage")
        assert (row.status, row.finish_reason) == (200, "length")
        assert row.tpot is not None
        assert row.e2e is not None
        assert row.ttft is not None
        assert row.ttft > 0.049
        assert row.e2e > 0.149
        # vLLM: latency minus TTFT, over the tokens after the first.
        assert row.tpot == pytest.approx((row.e2e - row.ttft) / 2)
    assert min(row.ttft or 1 for row in rows) < 0.07
    assert min(row.e2e or 1 for row in rows) < 0.18
    assert min(max(abs(gap - 0.05) for gap in row.itls) for row in rows) < 0.02


def test_one_chunk_with_many_events_and_events_in_pieces() -> None:
    whole = b"".join([event("né"), event("漢"), event("!", "stop"), usage(4, 3), DONE])
    spec = LoadSpec(concurrency=1, keep_text=True)
    assert one_row(stream(whole), spec).text == "né漢!"
    bytewise: list[bytes | float] = []
    for i in range(0, len(whole), 7):
        bytewise += [whole[i : i + 7], 0.002]
    row = one_row(stream(*bytewise), spec)
    assert (row.error, row.text, row.output_tokens) == (None, "né漢!", 3)


def test_without_usage_the_chunks_are_counted_and_marked() -> None:
    row = one_row(stream(event("a"), event("b"), event("", "stop"), DONE))
    assert (row.error, row.output_tokens, row.tokens_from) == (None, 2, "chunks")
    assert row.prompt_tokens is None
    assert len(row.itls) == 1


def test_an_answer_of_one_end_token_is_complete() -> None:
    row = one_row(stream(event("", "stop"), usage(4, 1), DONE))
    assert (row.error, row.output_tokens, row.tpot) == (None, 1, None)
    assert row.ttft is not None


def test_chat_counts_from_the_first_token_not_from_the_role() -> None:
    spec = LoadSpec(concurrency=1, endpoint="chat", keep_text=True)
    steps = (chat_event(role="assistant", content=""), 0.1, chat_event(content="Hi"), chat_event(reasoning_content="!"))
    row = one_row(stream(*steps, chat_event("stop"), usage(9, 2), DONE), spec)
    assert (row.error, row.text, row.output_tokens) == (None, "Hi!", 2)
    assert row.ttft is not None
    assert row.ttft > 0.09


def test_no_done_line_is_fine_with_a_finish_reason_and_the_other_way_round() -> None:
    assert one_row(stream(event("a"), event("b", "stop"))).error is None
    assert one_row(stream(event("a"), event("b"), DONE)).error is None


HTML = "<html><head><title>Sign in</title><style>b {}</style></head><body>Please sign in</body></html>"
OPENAI_400 = '{"error": {"message": "max_tokens is too large: 99", "type": "BadRequestError", "code": 400}}'


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (plain(OPENAI_400, 400), "http 400: max_tokens is too large: 99"),
        (plain('{"detail": "Not Found"}', 404), "http 404: Not Found"),
        (plain("overloaded", 503, "text/plain"), "http 503: overloaded"),
        (plain("", 500, "text/plain"), "http 500: Internal Server Error"),
        (plain(HTML, 200, "text/html"), "not a stream: text/html: Sign in Please sign in"),
        (plain("x" * 9999, 502, "text/plain"), f"http 502: {'x' * 157}..."),
        (plain('{"choices": []}', 200), 'not a stream: application/json: {"choices": []}'),
        (stream(event("a"), event("b"), cut=True), "cut: the connection broke after 2 chunks"),
        (stream(event("a"), event("b")), "cut: the stream ended after 2 chunks without finish_reason or [DONE]"),
        (stream(), "cut: the stream ended after 0 chunks without finish_reason or [DONE]"),
        (stream(usage(4, 0), DONE), "empty: the answer holds no token"),
        (stream(event("", "stop"), DONE), "empty: the answer holds no token"),
        (stream(event("a"), b'data: {"error": {"message": "out of memory"}}\n\n', 9.0), "server error: out of memory"),
        (stream(event("a"), event("", "abort"), DONE), "server error: the answer ended with finish_reason 'abort'"),
        (stream(b"data: <html>\n\n", 9.0), "bad event: JSON is malformed: invalid character (byte 0): "),
        (stream(b'data: {"choices": 7}\n\n', 9.0), "bad event: Expected `array | null`, got `int` - at `$.choices`"),
        (stream(event("a"), b'data: "\xff"\n\n', 9.0), "bad event: "),
    ],
)
def test_every_failure_is_a_row_with_its_reason(answer: Answer, error: str) -> None:
    row = one_row(answer)
    assert row.error is not None
    assert row.error.startswith(error)
    assert "\n" not in row.error
    assert (row.e2e, row.tpot) == (None, None)


def test_a_slow_answer_times_out() -> None:
    row = one_row(stream(event("a"), 5.0), LoadSpec(concurrency=1, timeout=0.3))
    assert row.error == "timeout: no complete answer within 0.3 s"
    assert row.first is not None


def test_failed_requests_are_counted_not_dropped() -> None:
    with serving(GOOD, plain("no", 500, "text/plain"), GOOD) as server:
        result = run_load(server.url, [PROMPT] * 4, ONE)
    assert [row.error for row in result.rows] == [None, "http 500: no", None, None]
    assert result.failed == 1


def test_the_request_body() -> None:
    with serving(GOOD) as server:
        run_load(server.url + "/v1/", [PROMPT], LoadSpec(concurrency=1, extra={"top_p": 0.5}))
        run_load(server.url, [PROMPT], LoadSpec(concurrency=1, ignore_eos=False, temperature=None, model="lora"))
        tokens = Prompt(id="t", token_ids=(1, 2), output_tokens=1)
        run_load(server.url, [tokens], LoadSpec(concurrency=1))
        other = LoadSpec(concurrency=1, extra={"max_tokens": None, "max_completion_tokens": 4}, ignore_eos=False)
        run_load(server.url, [PROMPT], other)
    common = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 4, "prompt": "Once upon a time"}
    assert server.bodies[0] == common | {"model": "m", "temperature": 0.0, "ignore_eos": True, "top_p": 0.5}
    assert server.bodies[1] == common | {"model": "lora"}
    assert server.bodies[2]["prompt"] == [1, 2]
    assert "max_tokens" not in server.bodies[3]
    assert server.bodies[3]["max_completion_tokens"] == 4


def test_chat_bodies() -> None:
    good = stream(chat_event(role="assistant", content="x"), chat_event("stop"), DONE)
    talk = Prompt(id="c", messages=({"role": "system", "content": "Be brief"},), output_tokens=1)
    with serving(good) as server:
        run_load(server.url, [PROMPT, talk], LoadSpec(concurrency=1, endpoint="chat"))
        with pytest.raises(BadInput, match="prompt c is a list of messages; it needs the chat endpoint"):
            run_load(server.url, [talk], ONE)
    assert [body["messages"] for body in server.bodies] == [
        [{"role": "user", "content": "Once upon a time"}],
        [{"role": "system", "content": "Be brief"}],
    ]


def test_the_key_is_sent_and_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAB_API_KEY", "sk-secret")
    with serving(GOOD, plain('{"error": "Incorrect API key: sk-secret"}', 401)) as server:
        result = run_load(server.url, [PROMPT] * 2, ONE)
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"
    assert result.rows[1].error == "http 401: Incorrect API key: ***"
    refused = pytest.raises(ServerRefused, match=r"key: \*\*\*; set KVLAB_API_KEY to a key that it takes$")
    with serving(plain('{"error": "Incorrect API key: sk-secret"}', 401)) as server, refused:
        run_load(server.url, [PROMPT] * 2, ONE)


def test_a_closed_loop_keeps_its_concurrency() -> None:
    """The server answers no request of four before it has the other three."""
    four = asyncio.Barrier(4)

    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        await four.wait()
        return await stream(0.05, event("a", "stop"), DONE)(request, body)

    with serving(answer) as server:
        result = run_load(server.url, [PROMPT] * 12, LoadSpec(concurrency=4, timeout=10))
    assert [row.error for row in result.rows] == [None] * 12
    assert server.most_in_flight == 4
    assert result.duration > 0.149
    assert [row.index for row in result.rows] == list(range(12))
    assert all(row.scheduled == row.sent for row in result.rows)


def test_an_open_loop_sends_on_time_whatever_the_server_does() -> None:
    with serving(stream(0.5, event("a", "stop"), DONE)) as server:
        result = run_load(server.url, [PROMPT] * 20, LoadSpec(rate=40, seed=3))
    assert server.most_in_flight > 10
    assert result.rows[-1].scheduled == pytest.approx(0.5)
    late = sorted(row.sent - row.scheduled for row in result.rows)
    assert late[0] >= 0
    assert late[10] < 0.05
    assert late[-1] < 0.5  # none waits for an answer
    assert all(a.scheduled < b.scheduled for a, b in pairwise(result.rows))


def test_waiting_for_the_cap_counts_as_latency() -> None:
    with serving(stream(0.1, event("a", "stop"), DONE)) as server:
        result = run_load(server.url, [PROMPT] * 6, LoadSpec(rate=1000, concurrency=1))
    last = result.rows[-1]
    assert server.most_in_flight == 1
    assert last.ttft is not None
    assert last.ttft > 0.55
    assert min((row.first or 9) - row.sent for row in result.rows) == pytest.approx(0.1, abs=0.03)


def test_warm_up_is_sent_first_and_leaves_no_row() -> None:
    warm = Prompt(id="w", text="warm", output_tokens=1)
    seen: list[Progress] = []
    with serving(GOOD) as server:
        result = run_load(server.url, [PROMPT] * 2, ONE, warm_up=[warm] * 3, progress=seen.append)
    assert [body["prompt"] for body in server.bodies] == ["warm"] * 3 + [PROMPT.text] * 2
    assert [row.prompt_id for row in result.rows] == ["p", "p"]
    assert [(note.phase, note.done, note.total) for note in seen] == [
        ("warm-up", 1, 3), ("warm-up", 2, 3), ("warm-up", 3, 3), ("load", 1, 2), ("load", 2, 2),
    ]  # fmt: skip


def test_first_contact_is_one_line() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and nobody listens there
        with pytest.raises(ServerRefused, match=r"^no server at http://127.0.0.1:\d+/v1/models: .*refused.*; start"):
            run_load(f"127.0.0.1:{silent.getsockname()[1]}", [PROMPT], ONE)
    cases = [
        (plain(HTML, 200, "text/html"), "answered HTML instead of a JSON list of models"),
        (plain("boom", 500, "text/plain"), r"/v1/models answered 500: boom$"),
        (plain('{"error": {"message": "Loading model"}}', 503), r"/v1/models answered 503: Loading model$"),
        (plain("", 401), "answered 401: it wants an API key; set KVLAB_API_KEY"),
        (plain('{"data": []}'), "lists no model"),
        (plain("[1, 2"), "answered something instead of a JSON list"),
        (plain('{"object": "list"}'), "answered something instead of a JSON list"),
    ]
    for models, message in cases:
        with serving(GOOD) as server:
            server.models = models
            with pytest.raises(ServerRefused, match=message) as caught:
                run_load(server.url, [PROMPT], ONE)
            assert "\n" not in str(caught.value)


def test_a_server_that_lists_no_models_is_tried_with_the_name_given() -> None:
    with serving(GOOD) as server:
        server.models = plain("", 404, "text/plain")
        assert run_load(server.url, [PROMPT], LoadSpec(concurrency=1, model="x")).model == "x"
        with pytest.raises(ServerRefused, match=r"answered 404: .*; where a server lists no models, name one with --"):
            run_load(server.url, [PROMPT], ONE)


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://h:port", "http://[::1", "http://h:99999"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(BadInput, match="write http://HOST:PORT"):
        run_load(url, [PROMPT], ONE)


def test_no_request_answered_is_an_error_with_the_first_reason() -> None:
    with serving(plain("no such model", 404, "text/plain")) as server, pytest.raises(ServerRefused) as caught:
        run_load(server.url, [PROMPT] * 3, ONE)
    assert str(caught.value) == f"all 3 requests to {server.url} failed; the first: http 404: no such model"


def test_a_server_that_dies_ends_the_run_soon() -> None:
    with serving(stream(0.02, event("a", "stop"), DONE)) as server:
        threading.Timer(0.3, server.stop).start()
        began = time.perf_counter()
        with pytest.raises(ServerRefused, match=r"stopped taking connections after \d+ of 5000 requests \(refused: "):
            run_load(server.url, [PROMPT] * 5000, LoadSpec(concurrency=4))
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("bad", [{}, {"concurrency": 0}, {"rate": 0.0}, {"rate": -1.0}, {"rate": float("inf")}])
def test_loads_that_make_no_sense(bad: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        LoadSpec(**bad)  # type: ignore[arg-type]


def test_no_prompts() -> None:
    with pytest.raises(BadInput, match="no prompt to send"):
        run_load("http://127.0.0.1:1", [], ONE)


def test_the_metrics_beside_a_run() -> None:
    def read(pages: Mapping[str, str], _: Mapping[str, float]) -> dict[str, float]:
        return {word: float(value) for word, value in (line.split() for line in pages["/metrics"].splitlines())}

    looks_at_three = 0
    looked = asyncio.Event()

    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if len(server.bodies) > 1:  # the first warms up
            await looked.wait()
        return await stream(0.05, event("a", "stop"), DONE)(request, body)

    def page() -> str:
        nonlocal looks_at_three
        looks_at_three += server.in_flight == 3
        if looks_at_three == 2:
            looked.set()
        count = len(server.bodies)
        lines = [f"running {server.in_flight}", f"prefix_queries_tokens_total {10 + 4 * count}"]
        return "\n".join([*lines, f"prefix_hits_tokens_total {count}", f"kv_used_ratio {0.1 * server.in_flight}"])

    metrics = MetricMap(prefix="x", more=read, paths=("/metrics", "/absent"))
    with serving(answer) as server:
        server.pages["/metrics"] = page
        spec = LoadSpec(concurrency=3, sample_every=0.05, timeout=10)
        result = run_load(server.url, [PROMPT] * 6, spec, warm_up=[PROMPT], metrics=metrics)
    assert result.pool.peak_running == 3
    assert result.pool.peak_kv_used == pytest.approx(0.3)
    assert result.pool.prefix_hit_rate == pytest.approx(6 / 24)
    assert result.pool.peak_waiting is None
    assert result.pool.preemptions is None
    assert result.pool.samples == len(result.samples) >= 4
    assert result.samples[0].at < 0 < result.samples[1].at


def test_no_metrics_page_no_samples() -> None:
    metrics = MetricMap(prefix="x", paths=("/metrics",))
    with serving(GOOD) as server:
        result = run_load(server.url, [PROMPT], ONE, metrics=metrics)
    assert result.samples == ()
    assert result.pool.samples == 0
    assert result.pool.peak_kv_used is None


def test_ctrl_c_cancels_every_request_at_once() -> None:
    code = (
        "import sys\n"
        "from kvlab.load.runner import run_load\n"
        "from kvlab.load.spec import LoadSpec, Prompt\n"
        "prompts = [Prompt(id=str(i), text='x', output_tokens=1) for i in range(50)]\n"
        "try:\n"
        "    run_load(sys.argv[1], prompts, LoadSpec(concurrency=8))\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(42)\n"
    )
    with serving(stream(event("a"), 60.0)) as server:
        process = subprocess.Popen([sys.executable, "-c", code, server.url], stderr=subprocess.PIPE)
        wait_until(lambda: server.in_flight == 8)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=5)
        assert (process.returncode, errors) == (42, b"")
        wait_until(lambda: server.cancelled == 8)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.perf_counter() + 10
    while not true():
        assert time.perf_counter() < end
        time.sleep(0.02)
