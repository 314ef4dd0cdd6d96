"""What `kvlab traffic` says first of Mooncake's trace, and what it does not say twice."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

import kvlab
from kvlab.core.traffic import Traffic
from kvlab.reporting.terminal_traffic import traffic
from kvlab.reporting.traffic_words import answers

TRACE = Path(__file__).parents[1] / "golden" / "traces" / "mooncake_conversation_trace.jsonl.gz"


def lines_of(found: Traffic, width: int = 400) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(traffic(found), highlight=False)
    return out.getvalue().splitlines()


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


def test_a_limit_that_cuts_a_few_of_many_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text("num_prefill_tokens,num_decode_tokens\n" + "5,5\n" * 4_999 + "900,5\n")
    assert lines_of(kvlab.traffic(path))[0].startswith("A limit of 256 tokens would cut 1 request (")


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


@pytest.mark.parametrize("blocks", [67, 5_000])
def test_a_cache_that_was_asked_for_has_its_row_wherever_the_curve_is_flat(blocks: int) -> None:
    lines = lines_of(kvlab.traffic(TRACE, capacities=(blocks,)))
    assert [line.split()[:2] for line in lines].count([f"{512 * blocks:,}", f"{blocks:,}"]) == 1


def test_columns_without_a_word_are_left_out() -> None:
    tiers = {"tiers": ("gpu:67", "cpu:900")}
    bare = lines_of(kvlab.traffic(TRACE, **tiers))  # type: ignore[arg-type]
    assert any(line.split() == ["tier", "blocks", "blocks", "hit"] for line in bare)
    assert not any("bytes" in line.split() for line in bare)
    told = lines_of(kvlab.traffic(TRACE, bytes_per_token=147_456, prefill_tokens_per_second=8_000.0, **tiers))  # type: ignore[arg-type]
    assert any(line.split()[:3] == ["tier", "blocks", "bytes"] and "TTFT saved" in line for line in told)
    assert any(line.startswith("cache, tokens") and "bytes" in line for line in told)


def test_lengths_alone_leave_reuse_open_and_simulated_pools_in_doubt(tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n2023-11-16 18:15:50.99,396,109\n"
    )
    speed = {"pools": (900,), "prefill_tokens_per_second": 8_000.0, "decode_step_ms": 30.0}
    lines = lines_of(kvlab.traffic(path, **speed))  # type: ignore[arg-type]
    assert lines[lines.index("Prefix reuse") + 1].startswith("not known: lengths alone")
    assert "pools of blocks of 16 tokens" in lines
    assert any(line.split()[0] == "900" and "not known" in line for line in lines if line)
    assert any(line.startswith("- pools: which prompts begin alike is not known") for line in lines)
    assert not any(line.startswith("- pools:") for line in lines_of(kvlab.traffic(path)))


def test_the_codes_that_have_a_page_are_named() -> None:
    (line,) = (line for line in lines_of(kvlab.traffic(TRACE)) if line.startswith("kvlab explain CODE"))
    assert line.partition(": ")[2] == "context_limit, prefix_caching, offload_tier"


def test_times_of_an_hour_fit_a_narrow_screen() -> None:
    speed = {"prefill_tokens_per_second": 8_000.0, "decode_step_ms": 30.0, "bytes_per_token": 147_456}
    found = kvlab.traffic(TRACE, pools=(67,), engine="sglang", **speed)  # type: ignore[arg-type]
    lines = lines_of(found, width=80)
    assert any(line.startswith("blocks") and line.rstrip().endswith("at once") for line in lines)
    assert any(line.split()[:5] == ["67", "13", "h", "45", "min"] for line in lines)  # 825 min 16 s
    assert "pools of blocks of 512 tokens: 67 are 4.71 GiB" in lines
    assert (
        dict(answers(found))["under load"] == "every simulated pool has retractions, or is too small for some requests"
    )
