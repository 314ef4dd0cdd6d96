"""Requests at once: counted by hand, by a separate program over Azure's trace, and as runs of known concurrency had."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path
from statistics import mean

import pytest
from msgspec.structs import replace
from rich.console import Console

import kvlab
from kvlab.cli import main
from kvlab.core.errors import BadInput
from kvlab.core.plan import Alternative, Plan
from kvlab.core.traffic import Traffic
from kvlab.reporting.terminal_traffic import traffic
from kvlab.reporting.traffic_page import page
from kvlab.store import write_atomic

TESTS = Path(__file__).parents[1]
GOLDEN = TESTS / "golden" / "traces"
SPEED = {"prefill_tokens_per_second": 100.0, "decode_step_ms": 100.0}
"""Of `four`: each request is served for 2 s."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    config = TESTS / "golden" / "configs" / "Qwen__Qwen3-8B.json"
    return kvlab.plan(config, gpu="rtx4090-24gb", weights_gib=15.3)


@pytest.fixture
def four(tmp_path: Path) -> Path:
    """Two requests at once, one a second later, one alone: 2, 3, 1, 0, 0, 1, 1 of them in the seconds from 0 to 7."""
    path = tmp_path / "four.csv"
    rows = "".join(f"2023-11-16 18:00:0{second},100,10\n" for second in (0, 0, 1, 5))
    path.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}")
    return path


def with_pool(plan: Plan, tokens: int, others: dict[str, int]) -> Plan:
    assert plan.capacity is not None
    alternatives = tuple(Alternative(name, held, None, None) for name, held in others.items())
    return replace(plan, capacity=replace(plan.capacity, tokens=tokens), alternatives=alternatives)


def said(found: Traffic) -> str:
    out = io.StringIO()
    Console(file=out, width=400).print(traffic(found), highlight=False)
    return out.getvalue()


def test_four_requests_and_a_pool_that_lacks_thirteen_tokens(four: Path, plan: Plan) -> None:
    given = with_pool(plan, 400, {"bfloat16": 400, "fp8": 800, "int4": 1_600})
    found = kvlab.traffic(four, plan=given, **SPEED)  # type: ignore[arg-type]
    seen = found.concurrency
    assert seen is not None
    assert (seen.service, seen.peak.high, seen.p99.high) == ("stated", 3, 3)
    assert seen.mean.high == pytest.approx(8 / 7)
    assert seen.service_seconds.high == pytest.approx(2)
    # 3 requests of 110 tokens and a fifth to spare take 412.5 tokens
    assert (seen.verdict, seen.missing_tokens, seen.cheapest) == ("short", 13, "smaller_dtype")
    assert seen.holds == pytest.approx(400 / 110)
    assert seen.spare is not None
    assert seen.spare.low == pytest.approx(1 - 330 / 400)
    assert [(move.code, move.closes) for move in seen.moves] == [
        ("smaller_dtype", True),
        ("shorter_prompts", True),
        ("more_memory", True),
    ]
    assert "in fp8: 800 tokens, not 400" in seen.moves[0].do
    # 106.7 tokens a request are left: 96.7 of the prompt's 100
    assert "97 tokens in the mean, not 100" in seen.moves[1].do
    assert "13 tokens more" in seen.moves[2].do
    (move,) = (move for move in found.moves if move.code == "spare_pool")
    assert move.do == seen.moves[0].do
    for text in (said(found), page(found)):
        assert "the pool of 400 tokens (56.25 MiB) holds 3.6 requests" in text
        assert "the peak takes 82.5 % of it, and 20.0 % are to be spared; 13 tokens are missing" in text


def test_a_pool_with_a_fifth_to_spare_needs_no_move(four: Path, plan: Plan) -> None:
    found = kvlab.traffic(four, plan=with_pool(plan, 413, {}), **SPEED)  # type: ignore[arg-type]
    assert found.concurrency is not None
    assert (found.concurrency.verdict, found.concurrency.missing_tokens) == ("enough", 0)
    assert found.concurrency.moves == ()
    assert all(move.code != "spare_pool" for move in found.moves)


def test_moves_that_do_not_close_the_gap_say_so(four: Path, plan: Plan) -> None:
    found = kvlab.traffic(four, plan=with_pool(plan, 20, {"bfloat16": 20, "fp8": 40}), **SPEED)  # type: ignore[arg-type]
    assert found.concurrency is not None
    closes = {move.code: move.closes for move in found.concurrency.moves}
    assert closes == {"smaller_dtype": False, "shorter_prompts": False, "more_memory": True}
    assert found.concurrency.cheapest == "more_memory"


def test_a_limit_that_refuses_the_longest_closes_the_gap(tmp_path: Path, plan: Plan) -> None:
    """One of 200 requests, all at once, has 20,000 tokens; the others 256."""
    rows = "2023-11-16 18:00:00,246,10\n" * 199 + "2023-11-16 18:00:00,19990,10\n"
    path = tmp_path / "long.csv"
    path.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}")
    given = with_pool(plan, 65_000, {"bfloat16": 65_000})
    seen = kvlab.traffic(path, plan=given, prefill_tokens_per_second=1e4, decode_step_ms=10.0).concurrency
    assert seen is not None
    limit = seen.moves[0]
    # 199 x 256 / 0.8 = 63,680 tokens fit; with the long one it is 200 x 354.72 / 0.8 = 88,680
    assert (limit.code, limit.closes, seen.cheapest) == ("context_limit", True, "context_limit")
    assert "limit the context to 256 tokens, which refuses 1 request" in limit.do
    assert seen.missing_tokens == 88_680 - 65_000


def test_azure_conversations_as_a_separate_program_counts_them() -> None:
    """For each request, how many others run as it comes; mean and p99 over 200,001 moments of the trace."""
    found = kvlab.traffic(GOLDEN / "azure_conv.csv.gz", prefill_tokens_per_second=8_000.0, decode_step_ms=30.0)
    seen = found.concurrency
    assert seen is not None
    assert (seen.peak.low, seen.peak.high, seen.p99.high) == (63, 63, 56)
    assert seen.mean.high == pytest.approx(35.6986, abs=0.001)
    assert seen.service_seconds.high == pytest.approx(6.478115)
    assert (seen.pool_tokens, seen.verdict, seen.moves) == (None, None, ())


@pytest.mark.parametrize(("name", "at_once"), [("aiperf_0.13.0.jsonl.gz", 2), ("guidellm_0.8.1.json.gz", 1)])
def test_a_run_of_so_many_at_a_time_is_seen_as_one(name: str, at_once: int) -> None:
    seen = kvlab.traffic(GOLDEN / name).concurrency
    assert seen is not None
    assert (seen.service, seen.peak.high) == ("measured", at_once)


def test_the_log_s_own_times(plan: Plan) -> None:
    path = GOLDEN / "aiperf_0.13.0.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    times = [row["metadata"] for row in rows if not row.get("error")]
    taken = [row["request_end_ns"] - row["request_start_ns"] for row in times if row["benchmark_phase"] != "warmup"]
    for asked in ({}, {"plan": plan}):
        seen = kvlab.traffic(path, **asked).concurrency  # type: ignore[arg-type]
        assert seen is not None
        assert seen.service_seconds.low == seen.service_seconds.high == pytest.approx(mean(taken) / 1e9, abs=1e-6)


def test_a_plan_s_speed_is_a_range(four: Path, plan: Plan) -> None:
    seen = kvlab.traffic(four, plan=plan).concurrency
    assert seen is not None
    assert plan.capacity is not None
    assert seen.service == "estimated"
    assert seen.service_seconds.low < seen.service_seconds.high
    assert (seen.pool_tokens, seen.verdict) == (plan.capacity.tokens, "enough")
    assert seen.pool_bytes == plan.capacity.tokens * plan.kv.bytes_per_token
    short = kvlab.traffic(GOLDEN / "azure_conv.csv.gz", plan=with_pool(plan, 40_000, {}))
    assert re.search(r"the peak takes \d+\.\d % to \d+\.\d % of it, and 20.0 % are to be spared", said(short))
    two = kvlab.traffic(four, plan=replace(plan, ask=replace(plan.ask, dp=2))).concurrency
    assert two is not None
    assert two.pool_tokens == 2 * plan.capacity.tokens


def test_the_limit_frees_cache_against_what_the_model_allows(plan: Plan) -> None:
    found = kvlab.traffic(GOLDEN / "azure_conv.csv.gz", plan=plan)
    # Qwen3-8B: 40,960 tokens of 144 KiB; the limit is 4,352
    assert (found.context.recommended, found.context.model_context) == (4_352, 40_960)
    assert found.context.freed_bytes == (40_960 - 4_352) * 147_456
    assert found.context.freed_share == pytest.approx(0.89375)
    assert "takes 89.4 % (5.03 GiB) less of the cache than one of the 40,960 tokens" in said(found)
    assert kvlab.traffic(GOLDEN / "azure_conv.csv.gz").context.freed_share is None


def test_the_command_reads_the_plan(four: Path, plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kvlab.store import encode

    write_atomic(tmp_path / "plan.json", encode(plan))
    assert main(["traffic", str(four), "--plan", str(tmp_path / "plan.json"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["concurrency"]["verdict"] == "enough"
    assert found["context"]["model_context"] == 40_960
    assert main(["traffic", str(four), "--plan", str(four)]) == 2
    assert main(["traffic", str(four), "--plan", str(tmp_path / "none.json")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_plan_s_pool_is_the_one_on_the_curve(plan: Plan) -> None:
    reuse = kvlab.traffic(GOLDEN / "mooncake_synthetic_trace.jsonl.gz", plan=plan).reuse
    assert reuse is not None
    assert plan.capacity is not None
    assert reuse.asked_blocks == (plan.capacity.tokens // 512,)


def test_what_cannot_be_told_is_said(four: Path, plan: Plan) -> None:
    with pytest.raises(BadInput, match="states no speed"):
        kvlab.traffic(four, plan=replace(plan, speed=None))
    found = kvlab.traffic(GOLDEN / "vidur_arxiv.csv.gz", plan=plan)
    assert found.concurrency is None
    assert [doubt.key for doubt in found.doubts] == ["requests at once"]
    ticks = kvlab.traffic(GOLDEN / "mooncake_conversation_trace.jsonl.gz", plan=plan).doubts
    # 1,180 different times of 12,031 requests
    assert any("1,180 different times" in doubt.text for doubt in ticks)


def test_a_pool_of_prompts_that_are_not_known_has_its_page(four: Path) -> None:
    found = kvlab.traffic(four, pools=(20,), **SPEED)  # type: ignore[arg-type]
    assert found.load is not None
    assert found.concurrency is not None
    # 20 blocks of 16 tokens: 3 requests and a fifth to spare need 412.5
    assert (found.concurrency.pool_tokens, found.concurrency.verdict) == (320, "short")
    assert '<td class="n" data-label="tokens found">not known</td>' in page(found)
