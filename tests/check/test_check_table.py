"""The table of a check on a screen of 80 columns."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from kvlab import api
from kvlab.core.check import Check
from kvlab.reporting import terminal

GOLDEN = Path(__file__).parents[1] / "golden"
LLAMA = GOLDEN / "configs" / "meta-llama__Llama-3.1-8B.json"
A100 = GOLDEN / "vllm" / "logs" / "0.31.0_llama_3.1_8b_a100.log"


def shown(check: Check) -> list[str]:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(terminal.check(check))
    return capture.get().splitlines()


def test_verdicts_stay_whole_and_differences_end_where_the_log_does() -> None:
    plan = api.plan(LLAMA, gpu="a100-pcie-80gb", context=131072, engine_version="0.31.0")
    lines = shown(api.check(A100, plan=plan))
    (head,) = [line for line in lines if line.startswith("quantity")]
    assert head.split() == ["quantity", "planned", "log", "says", "difference", "verdict"]
    rows = [line.rstrip() for line in lines if " ~ in range" in line or " ? not seen" in line]
    assert len(rows) == 6
    # the log's 3.51x has two decimals, and so has the difference
    (row,) = [line for line in rows if "3.51 requests" in line]
    assert row.endswith("-0.03 requests  ~ in range")
