"""Servers that are busy, requests that the client gives up, and certificates."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import DONE, begun, event, plain, serving, stream

from kvlab.core.errors import BadInput, ServerRefused
from kvlab.load.bench import BenchSpec, bench
from kvlab.load.datasets import PromptsFile
from kvlab.load.retry import pause, retry_after
from kvlab.load.runner import run_load
from kvlab.load.spec import LoadSpec, Prompt, Tls

GOOD = stream(0.01, event("a"), event("b", "length"), DONE)
BUSY = plain('{"error": "slow down"}', 429, Retry_After="0.3")
PROMPT = Prompt(id="p", text="Once", output_tokens=2)


def test_a_busy_server_is_asked_again_after_the_time_it_states() -> None:
    with serving(BUSY, plain("", 503, Retry_After="0"), GOOD) as server:
        (row,) = run_load(server.url, [PROMPT], LoadSpec(concurrency=1, retries=3)).rows
    assert (row.error, row.status, row.retried) == (None, 200, (429, 503))
    assert len(server.bodies) == 3
    assert row.ttft is not None
    assert row.first is not None
    assert row.ttft >= 0.3
    assert row.sent - row.scheduled >= 0.3
    assert row.first - row.sent < row.ttft


def test_without_retries_a_busy_server_is_a_failure() -> None:
    with serving(BUSY, GOOD) as server:
        rows = run_load(server.url, [PROMPT] * 2, LoadSpec(concurrency=1)).rows
    assert [(row.error, row.status, row.retried) for row in rows] == [
        ("http 429: slow down", 429, ()),
        (None, 200, ()),
    ]


def test_the_tries_end_with_their_number_and_with_the_time_out() -> None:
    with serving(plain("", 429, Retry_After="0"), plain("", 429, Retry_After="0"), GOOD) as server:
        assert run_load(server.url, [PROMPT] * 2, LoadSpec(concurrency=1, retries=1)).rows[0].retried == (429,)
    with serving(plain("", 503, Retry_After="60"), GOOD) as server:
        row = run_load(server.url, [PROMPT] * 2, LoadSpec(concurrency=1, retries=5, timeout=2)).rows[0]
    assert row.error == "http 503: Service Unavailable (to be sent again in 60 s, which the time-out rules out)"


def test_other_failures_are_not_sent_again() -> None:
    with serving(plain("no", 500, "text/plain"), GOOD) as server:
        row = run_load(server.url, [PROMPT] * 2, LoadSpec(concurrency=1, retries=3)).rows[0]
    assert (row.error, row.retried) == ("http 500: no", ())


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        (" 1.5 ", 1.5),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 59.0),  # RFC 9110's example, read a minute before
        ("Fri, 31 Dec 1999 23:58:00 GMT", 0.0),
        ("-5", 0.0),
        (None, None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("Fri, 31 Dec 99999999999 23:59:59 GMT", None),
        ("inf", None),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, datetime(1999, 12, 31, 23, 59, tzinfo=UTC)) == seconds


def test_the_pause_grows_where_the_server_states_none() -> None:
    assert [pause(None, tries) for tries in (1, 2, 3, 20)] == [1, 2, 4, 30]
    assert pause(0.5, 4) == 0.5


def test_cancelled_requests_are_neither_completed_nor_failed(tmp_path: Path) -> None:
    file = tmp_path / "p.txt"
    file.write_text("\n".join(f"prompt {number}" for number in range(8)))
    load = LoadSpec(concurrency=8, cancel_share=0.5, cancel_after=0.6, seed=3)

    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        """Ends once the four of its run have been given up; the first two of a run warm up."""
        run, at = divmod(len(server.bodies) - 1, 10)
        response = await begun(request)
        await response.write(event("a"))
        while at > 1 and server.cancelled < 4 * (run + 1):
            await asyncio.sleep(0.01)
        await response.write(event("b", "stop") + DONE)
        await response.write_eof()
        return response

    with serving(answer) as server:
        spec = BenchSpec(dataset=PromptsFile(path=str(file), output_tokens=2), load=load, warm_up=2)
        first, again = (bench(server.url, spec) for _ in range(2))
        assert server.cancelled == 8
    gone = [row for row in first.rows if row.cancelled]
    assert len(gone) == 4
    assert [row.index for row in gone] == [row.index for row in again.rows if row.cancelled]
    for row in gone:
        assert row.error == "cancelled: by the client, 0.6 s after sending"
        assert (row.e2e, row.tpot, row.finish_reason) == (None, None, None)
        assert row.first is not None
        assert row.done is not None
    assert max((row.done or 0) - row.sent for row in gone) > 0.5
    own = first.metrics["kvlab"]
    assert isinstance(own, dict)
    assert (first.metrics["completed"], first.metrics["failed"], own["cancelled"], own["errors"]) == (4, 0, 4, {})
    assert "4 of 8 requests were cancelled by the client, as asked" in first.remarks[0]


def test_a_request_that_is_done_in_time_is_not_cancelled() -> None:
    with serving(GOOD) as server:
        result = run_load(server.url, [PROMPT] * 4, LoadSpec(concurrency=2, cancel_share=1, cancel_after=5))
    assert (result.completed, result.cancelled, result.failed) == (4, 0, 0)


def test_statuses_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "p.txt"
    file.write_text("one\ntwo\nthree")
    spec = BenchSpec(
        dataset=PromptsFile(path=str(file), output_tokens=2), load=LoadSpec(concurrency=1, retries=1), warm_up=0
    )
    with serving(plain("", 429, Retry_After="0"), GOOD, plain("no", 500), GOOD) as server:
        result = bench(server.url, spec)
    own = result.metrics["kvlab"]
    assert isinstance(own, dict)
    assert own["statuses"] == {"200": 2, "429": 1, "500": 1}
    assert any("1 of 3 requests were sent again" in remark for remark in result.remarks)
    assert "1 of 3 requests failed: http 500: no; the latencies are those of the others" in result.remarks


def test_why_requests_failed_is_remarked(tmp_path: Path) -> None:
    file = tmp_path / "p.txt"
    file.write_text("one\ntwo\nthree\nfour")
    spec = BenchSpec(dataset=PromptsFile(path=str(file), output_tokens=2), load=LoadSpec(concurrency=1), warm_up=0)
    with serving(BUSY, plain("no", 500), BUSY, GOOD) as server:
        remarks = bench(server.url, spec).remarks
    assert (
        "3 of 4 requests failed: http 429: slow down (2 of them); --retry N sends again what a busy server refuses;"
        " the latencies are those of the others"
    ) in remarks


def test_tls_with_the_authority_named(certificate: tuple[Path, ssl.SSLContext]) -> None:
    cert, context = certificate
    with serving(GOOD, tls=context) as server:
        assert server.url.startswith("https://")
        spec = LoadSpec(concurrency=1, tls=Tls(ca_file=str(cert)))
        assert run_load(server.url, [PROMPT], spec).completed == 1


def test_tls_with_an_unknown_authority_is_refused_with_what_to_do(certificate: tuple[Path, ssl.SSLContext]) -> None:
    with serving(GOOD, tls=certificate[1]) as server, pytest.raises(ServerRefused) as caught:
        run_load(server.url, [PROMPT], LoadSpec(concurrency=1))
    assert "the certificate is not believed (self-signed certificate); name its authority's PEM file" in str(
        caught.value
    )


def test_any_command_takes_the_authority_from_the_environment(
    certificate: tuple[Path, ssl.SSLContext], tmp_path: Path
) -> None:
    """OpenSSL's own variable: commands without --ca-file reach such a server too."""
    words = ["bench", "--num-prompts", "1", "--warm-up", "0", "-o", str(tmp_path / "r.json"), "--prompts"]
    (tmp_path / "p.txt").write_text("one")
    with serving(GOOD, tls=certificate[1]) as server:
        argv = [sys.executable, "-m", "kvlab", *words, str(tmp_path / "p.txt"), server.url]
        plain = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "SSL_CERT_FILE": ""})
        named = {**os.environ, "SSL_CERT_FILE": str(certificate[0])}
        believed = subprocess.run(argv, capture_output=True, text=True, env=named)
    assert plain.returncode == 2
    assert "name its authority's PEM file in SSL_CERT_FILE" in plain.stderr
    assert believed.returncode == 0, believed.stderr


def test_tls_unchecked_is_remarked(certificate: tuple[Path, ssl.SSLContext], tmp_path: Path) -> None:
    file = tmp_path / "p.txt"
    file.write_text("one")
    load = LoadSpec(concurrency=1, tls=Tls(insecure=True))
    with serving(GOOD, tls=certificate[1]) as server:
        result = bench(server.url, BenchSpec(dataset=PromptsFile(path=str(file), output_tokens=2), load=load))
    assert result.metrics["completed"] == 1
    assert "the server's certificate was not checked (--insecure)" in result.remarks


def test_a_file_of_authorities_that_is_none(tmp_path: Path) -> None:
    empty = tmp_path / "ca.pem"
    for file, why in ((empty, "cannot read"), (tmp_path, "cannot read"), (Path(__file__), "holds no certificate")):
        with pytest.raises(BadInput, match=why):
            run_load("https://127.0.0.1:9", [PROMPT], LoadSpec(concurrency=1, tls=Tls(ca_file=str(file))))


@given(
    st.one_of(
        st.text(max_size=40), st.from_regex(r"[A-Z][a-z]{2}, \d{1,4} [A-Z][a-z]{2} \d{1,9} \d+:\d+:\d+ [-+A-Z0-9]*")
    )
)
def test_any_header_is_a_wait_or_none(text: str) -> None:
    found = retry_after(text)
    assert found is None or 0 <= found < float("inf")
