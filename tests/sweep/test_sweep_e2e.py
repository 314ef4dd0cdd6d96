"""A sweep on the embedded engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kvlab
from kvlab.core.bracket import Search
from kvlab.core.errors import BadInput
from kvlab.core.objectives import objectives
from kvlab.core.plan import Ask
from kvlab.launch import Server
from kvlab.sweeping import SweepSettings

pytestmark = pytest.mark.e2e
SEARCH = Search(over="concurrency", points=(1, 2), requests=4, most_requests=4, target=0.4)


def test_a_running_server_beside_its_plan(llama_server: Server, gemma: Path, tmp_path: Path) -> None:
    plan = kvlab.plan(gemma, engine="llamacpp", context=8192, parallel=4, engine_args={"embedded": "true"})
    settings = SweepSettings(
        source=llama_server.url,
        search=SEARCH,
        objectives=objectives(["e2el:600000"]),
        input_tokens=12,
        output_tokens=4,
        warm_up=1,
        price_per_hour=3.0,
    )
    found = kvlab.sweep(settings, tmp_path / "lab", plan=plan)
    assert (found.engine, found.verdict.code, found.safe.meets_at) == ("llamacpp", "not_bracketed", 2)
    assert [one.load for one in found.points] == [1, 2]
    assert [one.requests for one in found.points] == [5, 8]  # the first of each place beside 4, or 3 turns of 2
    assert not any(one.failed for one in found.points)
    assert all(one.cached_share is not None and one.cached_share < 0.1 for one in found.points)
    assert all(one.pool.peak_kv_used is not None for one in found.points)
    room = found.safe.plan
    assert room is not None
    assert plan.capacity is not None
    assert room.request_tokens == 16
    assert room.pool_tokens == plan.capacity.tokens
    assert room.share == pytest.approx(2 * 16 / plan.capacity.tokens)
    assert found.cost is not None
    assert found.cost.at == 2


def test_what_is_launched_is_stopped_and_checked(gemma: Path, tmp_path: Path) -> None:
    ask = Ask(engine="llamacpp", context=1024, parallel=1, engine_args=(("embedded", "true"),))
    settings = SweepSettings(
        source=str(gemma), ask=ask, search=SEARCH, objectives=(), input_tokens=8, output_tokens=2, warm_up=0
    )
    found = kvlab.sweep(settings, tmp_path / "lab")
    assert [one.load for one in found.points] == [1, 2]
    check = json.loads((tmp_path / "lab" / "check.json").read_text())
    assert {row["verdict"] for row in check["rows"]} == {"agrees"}
    with pytest.raises(BadInput, match="do not fit the 1,024"):
        kvlab.sweep(SweepSettings(source=str(gemma), ask=ask, search=SEARCH, output_tokens=600), tmp_path / "other")
