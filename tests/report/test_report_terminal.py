from __future__ import annotations

import io
import subprocess
import sys

import pytest
import sample
from msgspec.structs import replace
from rich.console import Console, RenderableType

from kvlab.core.check import Check, CheckRow
from kvlab.core.comparison import Compare, ComparedFile, LeftOut
from kvlab.core.measure import PoolUse
from kvlab.core.plan import ContextLine, Launch
from kvlab.reporting import terminal


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
        "ab": terminal.ab(record.ab),
        "quality": terminal.quality(sample.quality()),
        "prefix": terminal.prefix(sample.prefix()),
    }


@pytest.mark.parametrize("name", sorted(everything()))
@pytest.mark.parametrize("width", [80, 60, 120])
def test_no_line_is_wider_than_the_screen(name: str, width: int) -> None:
    lines = shown(everything()[name], width).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= (width if width >= 80 else 80)


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
    text = shown(terminal.plan(sample.plan()), 140).partition("Memory of one GPU rank")[2]
    for line in sample.plan().ledger:
        row = next(row for row in text.splitlines() if row.startswith(line.name.replace("_", " ") + " "))
        assert f" {line.kind}" in row
    assert "estimated, -60 MiB to -20 MiB" in text


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
    assert "agrees 4, differs 1, not seen 1" in text
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
