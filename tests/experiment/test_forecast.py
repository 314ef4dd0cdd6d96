"""What plan and load foretell, against what was measured on the real engine."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvlab import api, showcase
from kvlab.core.forecast import forecast, scored
from kvlab.core.measure import PoolUse
from kvlab.core.plan import Ask
from kvlab.core.record import Forecast, Load, Run

SEEN = {"a": (4.0, 1.0), "b": (7.0, 1.0)}
"""Requests at once, and whether any waited, as llama-server stated in the demo of the README: 4 in A and 7 in B."""


def rows(model: Path, **changes: object) -> tuple[Forecast, ...]:
    settings = showcase.settings(model)
    load = msgspec.structs.replace(settings.load, **changes)
    plans = {"a": api.plan_ask(model, settings.a), "b": api.plan_ask(model, settings.b)}
    return forecast(plans, load)  # type: ignore[arg-type]  # the names of the arms are those of the type


def run(arm: str, pool: PoolUse) -> Run:
    return Run(
        block=0,
        arm="a" if arm == "a" else "b",
        folder="",
        metrics={},
        completed=1,
        failed=0,
        rows=(),
        samples=(),
        pool=pool,
    )


def test_the_demo_is_foretold_as_it_was_measured(gemma: Path) -> None:
    found = {(str(row.arm), row.name): row for row in rows(gemma)}
    for arm, (running, waiting) in SEEN.items():
        row = found[arm, "running_at_once"]
        assert row.low <= running <= row.high
        assert row.high - row.low <= 1
        assert (found[arm, "requests_wait"].low, found[arm, "requests_wait"].high) == (waiting, waiting)


def test_a_forecast_is_scored_by_what_the_engine_said(gemma: Path) -> None:
    seen = [run(arm, PoolUse(peak_running=running, peak_waiting=2.0)) for arm, (running, _) in SEEN.items()]
    found = {(row.arm, row.name): row for row in scored(rows(gemma), seen)}
    assert found["a", "running_at_once"].hit is True
    assert found["b", "requests_wait"].hit is True
    assert found["a", "peak_cache_use"].hit is None
    wrong = {(row.arm, row.name): row for row in scored(rows(gemma), [run("a", PoolUse(peak_running=1.0))])}
    assert wrong["a", "running_at_once"].hit is False
    assert wrong["b", "running_at_once"].hit is None


def test_few_requests_leave_the_pool_empty_and_nothing_waits(gemma: Path) -> None:
    found = {(row.arm, row.name): row for row in rows(gemma, concurrency=2)}
    assert (found["b", "running_at_once"].low, found["b", "running_at_once"].high) == (2, 2)
    assert found["b", "requests_wait"].high == 0
    assert found["b", "peak_cache_use"].high < 0.35


def test_what_cannot_be_foretold_is_not(gemma: Path) -> None:
    assert rows(gemma, concurrency=None, rate=2.0) == ()
    assert rows(gemma, input_tokens=None) == ()


@pytest.mark.parametrize(("block", "seen"), [(32, 0.010988), (128, 0.017589)])
def test_the_use_of_a_paged_pool_is_counted_in_whole_blocks(gemma: Path, block: int, seen: float) -> None:
    """What a vLLM 0.32 on a CPU stated (kv_cache_usage_perc) with four requests of 128 to 152 tokens at once."""
    load = Load(dataset="random", prompts=24, input_tokens=128, output_tokens=24, concurrency=4, rate=None, seed=0)
    plan = api.plan_ask(gemma, Ask(engine="vllm", gpu="cpu", pool_gib=1, context=2048, block_size=block))
    (row,) = [row for row in forecast({"a": plan}, load) if row.name == "peak_cache_use"]
    assert row.low < seen < row.high < 1.1 * seen
