"""Parts of `kvlab prefix` on a real llama.cpp server with Gemma 3, whose sliding window has 512 tokens."""

from __future__ import annotations

from random import Random

import pytest

from kvlab.launch import Server
from kvlab.sharing import blocks
from kvlab.sharing.counters import reconciled
from kvlab.sharing.line import Line
from kvlab.sharing.salts import measure_salts
from kvlab.sharing.server import look, vocabulary
from kvlab.sharing.writer import Writer


@pytest.fixture(scope="module")
def line(llama_server: Server) -> Line:
    known = look(llama_server.url, None)
    assert known.engine == "llamacpp"
    assert known.limit == 2048
    return Line(llama_server.url, known, Writer(vocabulary(llama_server.url, known.engine), Random()))


def silent(done: int, total: int) -> None:
    return None


def test_tokens_are_reused_one_by_one_beyond_the_window(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "PROBES", 4)  # the search for the first hit would take a minute
    with line.part("block size"):
        found = blocks.measure_block(line, line.known.room, None, silent)
    told = {probe.shared_tokens: probe.cached_tokens for probe in found.probes}
    assert (told[640], told[639]) == (640, 639)
    assert found.block_size == 1
    assert "token by token" in found.because
    assert told[320] is not None
    assert told[320] < 320  # below the window only a checkpoint helps
    assert found.first_hit_tokens is not None
    assert found.first_hit_tokens > 320


def test_salts_are_ignored(line: Line) -> None:
    with line.part("salts"):
        found = measure_salts(line, 560, silent)
    assert found.verdict == "not supported"
    assert "ignores cache_salt" in found.because


def test_the_counters_agree_to_the_token(line: Line) -> None:
    rows = reconciled(line.accounts)
    assert {row.part for row in rows} == {"block size", "salts"}
    assert {row.verdict for row in rows} == {"agrees"}
    assert all(row.sent for row in rows)
