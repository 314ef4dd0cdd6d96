"""What `kvlab traffic` says first of Mooncake's trace, and what it does not say twice."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

import kvlab
from kvlab.reporting.terminal_traffic import traffic

TRACE = Path(__file__).parents[1] / "golden" / "traces" / "mooncake_conversation_trace.jsonl.gz"


def test_the_limit_is_told_with_what_it_cuts_and_is_no_order() -> None:
    found = kvlab.traffic(TRACE)
    out = io.StringIO()
    Console(file=out, width=400).print(traffic(found), highlight=False)
    lines = out.getvalue().splitlines()
    # 119 of the 12,031 requests of that trace have more than 86,016 tokens
    assert lines[0].startswith("A limit of 86,016 tokens would cut 1.0 % of the requests (p99 of the total length is ")
    assert "; 126,720 tokens hold all" in lines[0]
    (move,) = (line for line in lines if line.startswith("- choose the limit: 86,016 tokens"))
    assert "119 requests lie between the two" in move
    assert found.context.because not in out.getvalue()
    assert all("limit the context to" not in line.lower() for line in lines)


def test_a_limit_that_cuts_nothing_says_so() -> None:
    found = kvlab.traffic(TRACE, percentile=100)
    out = io.StringIO()
    Console(file=out, width=400).print(traffic(found), highlight=False)
    assert out.getvalue().startswith("A limit of 126,720 tokens holds all requests")
    assert found.moves[0].because == "no request of this trace is longer"


@pytest.mark.parametrize(
    ("asked", "headings"),
    [
        ({}, ["Tokens a request (read)", "Prefix reuse (computed)", "Memory reserved and not used (computed)"]),
        (
            {"sample": "10%"},
            ["Tokens a request (read)", "Prefix reuse (estimated)", "Memory reserved and not used (computed)"],
        ),
    ],
)
def test_each_table_says_where_its_numbers_come_from(asked: dict[str, str], headings: list[str]) -> None:
    out = io.StringIO()
    Console(file=out, width=400).print(traffic(kvlab.traffic(TRACE, **asked)), highlight=False)  # type: ignore[arg-type]
    assert [line for line in out.getvalue().splitlines() if line.endswith(("(read)", "ed)"))] == headings


def test_estimated_tokens_make_every_table_an_estimate(tmp_path: Path) -> None:
    rows = [{"prompt": f"[2026-05-{at:02}] " + "Answer in one sentence. " * 30} for at in range(1, 9)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({**row, "usage": {"completion_tokens": 9}}) + "\n" for row in rows))
    out = io.StringIO()
    Console(file=out, width=400).print(traffic(kvlab.traffic(path, estimate_tokens=True)), highlight=False)
    lines = out.getvalue().splitlines()
    assert "Tokens a request (estimated, 4 bytes of text a token)" in lines
    named = ("Prefix reuse", "What breaks the prefix", "Memory reserved and not used")
    assert all(f"{name} (estimated)" in lines for name in named)


def test_the_schemes_of_reserving_are_explained_under_their_table() -> None:
    out = io.StringIO()
    Console(file=out, width=400).print(traffic(kvlab.traffic(TRACE)), highlight=False)
    (line,) = (line for line in out.getvalue().splitlines() if line.startswith("waste: "))
    assert all(f"{word}: " in line for word in ("max", "pow2", "oracle", "pages"))
