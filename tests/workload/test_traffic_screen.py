"""What `kvlab traffic` says first of Mooncake's trace, and what it does not say twice."""

from __future__ import annotations

import io
from pathlib import Path

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


def test_the_schemes_of_reserving_are_explained_under_their_table() -> None:
    out = io.StringIO()
    Console(file=out, width=400).print(traffic(kvlab.traffic(TRACE)), highlight=False)
    (line,) = (line for line in out.getvalue().splitlines() if line.startswith("waste: "))
    assert all(f"{word}: " in line for word in ("max", "pow2", "oracle", "pages"))
