"""Requests at once: vLLM prints "%.2fx", and one screen writes one number in one way."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from kvlab import api
from kvlab.reporting import terminal, words

CONFIGS = Path(__file__).parents[1] / "golden" / "configs"


@pytest.mark.parametrize(
    ("count", "said"), [(2.0556, "2.06"), (14.758, "14.76"), (1234.5, "1,234.50"), (0.999, "0.99")]
)
def test_rounded_as_engines_print_them(count: float, said: str) -> None:
    assert words.requests(count) == said
    assert words.times(count) == f"{said}x"


@pytest.mark.parametrize("gpu", ["rtx3090-24gb", "h100-80gb"])
def test_the_table_repeats_the_headline(gpu: str) -> None:
    plan = api.plan(CONFIGS / "Qwen__Qwen3-8B-FP8.json", gpu=gpu)
    assert plan.capacity is not None
    console = Console(width=100)
    with console.capture() as capture:
        console.print(terminal.plan(plan))
    said = f"{plan.capacity.max_concurrency:.2f}"
    assert f"{said} requests" in plan.verdict.text
    line = next(line for line in capture.get().splitlines() if line.split()[:1] == [f"{plan.kv.context:,}"])
    assert f"{said}x" in line
