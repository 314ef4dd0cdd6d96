from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sample
from msgspec.structs import replace
from rich.console import Console, RenderableType

from kvlab.core.check import Check, CheckRow
from kvlab.core.comparison import Compare, ComparedFile, LeftOut
from kvlab.core.measure import PoolUse
from kvlab.core.plan import Ask, ContextLine, Launch, Move
from kvlab.core.units import MIB
from kvlab.reporting import terminal, terminal_ab


def shown(renderable: RenderableType, width: int = 80, **options: bool) -> str:
    out = io.StringIO()
    terminal.show(renderable, Console(file=out, width=width, **options))  # type: ignore[arg-type]
    return out.getvalue()


def compare() -> Compare:
    return Compare(
        a=ComparedFile("a.json", "vllm"),
        b=ComparedFile("b.json", "kvlab"),
        rows=sample.comparison(sample.record().runs),
        left_out=(LeftOut("mean_itl_ms", "the two tools count the first gap differently"),),
    )


def everything() -> dict[str, RenderableType]:
    record = sample.record()
    assert record.ab
    return {
        "plan": terminal.plan(sample.plan()),
        "check": terminal.check(sample.check()),
        "bench": terminal.bench(record.runs[0].metrics, record.runs[0].pool),
        "compare": terminal.compare(compare()),
        "ab": terminal_ab.ab(record.ab),
        "quality": terminal.quality(sample.quality()),
        "prefix": terminal.prefix(sample.prefix()),
    }


@pytest.mark.parametrize("name", sorted(everything()))
@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_no_line_is_wider_than_the_screen(name: str, width: int) -> None:
    lines = shown(everything()[name], width).splitlines()
    argv = [line for line in lines if line.startswith(("  -", "llama-server"))]
    assert max(len(line.rstrip()) for line in lines if line not in argv) <= width


@pytest.mark.parametrize("name", ["ab", "check", "compare"])
def test_80_columns_hold_the_tables_as_tables(name: str) -> None:
    text = shown(everything()[name], 80)
    assert "  change: " not in text
    assert "  planned: " not in text


def numbers(text: str) -> list[str]:
    return re.findall(r"\d[\d,.]*", text)


@pytest.mark.parametrize("name", sorted(everything()))
@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_no_number_is_cut_on_a_narrow_screen(name: str, width: int) -> None:
    wide = set(numbers(" ".join(shown(everything()[name], 300).split())))
    # What a narrow screen leaves out (a column of the context table) is left out whole.
    assert set(numbers(shown(everything()[name], width))) <= wide


@pytest.mark.parametrize(("columns", "width"), [("0", 80), ("1", 30), ("50", 50), ("x", 80)])
def test_a_width_that_no_terminal_has_is_not_taken(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal.screen().width == width


@pytest.mark.parametrize("name", sorted(everything()))
def test_an_ascii_terminal_gets_ascii(name: str) -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    terminal.show(everything()[name], Console(file=out, width=80))
    out.flush()
    text = raw.getvalue().decode("ascii")
    assert "?" * 3 not in text
    assert not re.search(r"[|+]-|-[|+]", text)  # a ruled line, no boxes


def test_capacities_of_an_estimated_pool_are_called_estimated() -> None:
    plan = sample.plan()
    pool = replace(plan.ledger[4], kind="estimated", low=60 * MIB, high=96 * MIB)
    assert plan.capacity is not None
    low = replace(plan.capacity, tokens=5852, max_concurrency=2.86)
    high = replace(plan.capacity, tokens=9363, max_concurrency=4.57)
    ledger = (*plan.ledger[:4], pool, *plan.ledger[5:])
    text = shown(terminal.plan(replace(plan, ledger=ledger, capacity_low=low, capacity_high=high)), 120)
    assert "8,192 (estimated, 5,852 to 9,363)" in text
    assert "4.00 (estimated, 2.86 to 4.57)" in text
    assert "84 MiB (estimated, 60 to 96 MiB)" in text
    assert "another cache dtype (estimated, for a pool of 60 to 96 MiB)" in text
    assert "Cache of one request (computed), and requests at once (estimated" in text
    assert "8,192 (computed)" in shown(terminal.plan(plan), 120)


def test_the_estimates_that_a_measurement_replaces_are_named() -> None:
    text = " ".join(shown(terminal.plan(sample.plan())).split())
    assert "compute buffers is an estimate: a measured --overhead-gib X replaces it" in text


def test_moves_that_differ_in_a_value_share_a_line() -> None:
    remark = "check the answers first: kvlab quality"
    moves = (Move(f"--kv-dtype q8_0 ({remark})", 100), Move(f"--kv-dtype q4_0 ({remark})", 200), Move("wait", None))
    plan = sample.plan()
    text = shown(terminal.plan(replace(plan, verdict=replace(plan.verdict, moves=moves))), 120)
    assert f"- --kv-dtype q8_0 (+100 tokens) or q4_0 (+200 tokens); {remark}" in text
    assert text.count("check the answers") == 1
    assert "- wait" in text


@pytest.mark.parametrize(
    ("ask", "where"),
    [
        (Ask(gpu="cpu"), "this machine"),
        (Ask(gpu="h100-80gb"), "the GPU"),
        (Ask(gpu="h100-80gb", tp=2), "one GPU rank"),
        (Ask(pool_gib=1), "the engine"),
    ],
)
def test_the_ledger_names_whose_memory_it_is(ask: Ask, where: str) -> None:
    assert f"Memory of {where}\n" in shown(terminal.plan(replace(sample.plan(), ask=ask)))


@pytest.mark.parametrize("name", sorted(everything()))
def test_without_a_terminal_there_is_no_escape_sequence(name: str) -> None:
    assert "\x1b" not in shown(everything()[name])


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(terminal.plan(sample.plan()), force_terminal=True)
    assert "\x1b[1;32m" not in text
    assert "\x1b[32m" not in text


def test_a_plan_begins_with_its_verdict_in_one_line() -> None:
    first = shown(terminal.plan(sample.plan("q8_0"))).splitlines()[0]
    assert first == "Fits: the q8_0 cache holds 7 requests of 2,048 tokens in 84 MiB"


def test_every_ledger_line_says_where_it_comes_from() -> None:
    text = shown(terminal.plan(sample.plan()), 140).partition("Memory of the engine")[2]
    for line in sample.plan().ledger:
        row = next(row for row in text.splitlines() if row.startswith(line.name.replace("_", " ") + " "))
        assert f" {line.kind}" in row
    assert "estimated, -60 to -20 MiB" in text


def test_the_launch_command_is_whole_on_a_narrow_screen() -> None:
    long = "/models/" + "very-long-name-" * 12
    plan = replace(sample.plan(), launch=Launch(("llama-server", "-m", long)))
    text = shown(terminal.plan(plan), 60)
    assert f"llama-server \\\n  -m {long}\n" in text


def test_a_plan_without_a_pool_says_what_is_missing() -> None:
    plan = replace(sample.plan(), capacity=None, ledger=(), alternatives=(), contexts=())
    assert "unknown: the verdict says why" in " ".join(shown(terminal.plan(plan)).split())


def test_the_context_table_begins_with_the_dtype_in_use_and_shows_no_column_twice() -> None:
    lines = tuple(
        ContextLine(context, dtype, context * width, None)
        for context in (1024, 2048)
        for dtype, width in (("f32", 4), ("bf16", 2), ("f16", 2), ("q8_0", 1), ("q4_0", 1))
    )
    text = shown(terminal.plan(replace(sample.plan("f16"), contexts=lines)))
    header = next(line for line in text.splitlines() if line.strip().startswith("context"))
    assert header.split() == ["context", "f16", "q8_0", "f32"]


def test_a_check_quotes_the_line_of_the_log() -> None:
    text = shown(terminal.check(sample.check()), 160)
    assert "4 exact, 1 differ, 1 not seen" in text
    assert f"line 211: {sample.PRINTED['f16'][0]}" in text
    assert "! differs" in text
    assert "? not seen" in text


def test_a_check_without_a_plan_lists_what_the_log_says() -> None:
    row = CheckRow(name="kv_full_bytes", unit="bytes", planned=None, seen=25165824, verdict="not seen", line="a line")
    text = shown(terminal.check(Check(engine=sample.ENGINE, rows=(row,))))
    assert "24 MiB" in text
    assert "differs" not in text


def test_what_an_engine_did_not_say_is_not_zero() -> None:
    text = shown(terminal.bench({"completed": 4}, PoolUse(samples=3)))
    assert text.count("not seen") >= 5
    assert "0.0 %" not in text


def test_a_log_line_cannot_steer_the_terminal() -> None:
    row = replace(sample.check().rows[0], line="\x1b]0;owned\x07\x1b[2J[bold red]kv[/]", name="[link=x]\u202ekv")
    text = shown(terminal.check(Check(engine=sample.ENGINE, rows=(row,))), 120, force_terminal=True)
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text
    assert "[bold red]kv[/]" in text
    assert "[link=x]\\u202ekv" in text


def test_the_package_itself_imports_neither_rich_nor_altair() -> None:
    code = "import sys, kvlab.reporting; sys.exit(any(name in sys.modules for name in ('rich', 'altair', 'jinja2')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_comparison_has_one_line_a_metric_in_80_columns() -> None:
    import kvlab

    result = Path(__file__).parents[1] / "golden" / "results" / "vllm_0.32-detailed.json"
    found = kvlab.compare(result, result)
    text = shown(terminal.compare(found), 80)
    lines = [line for line in text.splitlines() if re.match(r"(mean|median|std|p\d+) \w+, ms +\d", line)]
    assert len(lines) >= 6
    assert "requests/s            24.39   24.39" in text
    assert not [line for line in text.splitlines() if re.match(r" +(?:requests|tokens)/s", line)]
