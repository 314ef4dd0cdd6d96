"""docs/logs.md is what benchmarks/log_table.py makes of the golden logs now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kvlab import api, engines

ROOT = Path(__file__).parents[2]


def test_the_page_of_the_logs_is_current(benchmark: Callable[[str], ModuleType]) -> None:
    assert benchmark("log_table").document() == (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")


def test_a_quantity_that_was_read_in_an_own_run_is_marked_so(benchmark: Callable[[str], ModuleType]) -> None:
    """vLLM's tokens were recorded since 0.7.3 and read here in 0.32; 0.2 stated none."""
    header, _, *rows = benchmark("log_table").table("vllm")
    versions = header.strip("| ").split(" | ")[1:]
    tokens = next(row for row in rows if row.startswith("| kv_tokens |"))
    marks = dict(zip(versions, tokens.removeprefix("| kv_tokens | ").removesuffix(" |").split(" | "), strict=True))
    assert (marks["0.7.3"], marks["0.31"], marks["0.32"], marks["0.2"]) == ("R", "R", "H", "")


@pytest.mark.parametrize("engine", engines.names())
@pytest.mark.parametrize("config", ["Qwen__Qwen3-8B", "google__gemma-3-27b-it", "deepseek-ai__DeepSeek-V2-Lite"])
def test_a_plan_expects_nothing_that_no_golden_log_states(
    benchmark: Callable[[str], ModuleType], engine: str, config: str
) -> None:
    """Else it could only ever be "not seen"."""
    script = benchmark("log_table")
    read = {item.name for row in script.index(engine) for item in script.stated(engine, row)}
    plan = api.plan(ROOT / "tests/golden/configs" / f"{config}.json", engine=engine, gpu="h100-80gb", context=8192)
    assert {row.name for row in plan.expects} - read == set()


def test_kvlab_reads_every_log_that_its_peers_are_given(benchmark: Callable[[str], ModuleType]) -> None:
    """The figures in the document are those of the golden logs as they are."""
    script = benchmark("log_peers")
    counted: Counter[str] = Counter()
    for log in script.logs():
        answer = script.by_kvlab(log)
        counted.update(script.verdict(log.truth[name], answer[name]) for name in script.QUANTITIES)
    assert (counted["wrong"], counted["-"]) == (0, 0)
    documented = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert f"| all | {counted['right']} / 0 / 0 |" in documented
    assert f"the {len(script.logs())} golden logs" in documented
