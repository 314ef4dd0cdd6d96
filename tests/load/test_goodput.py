"""Goodput as `vllm bench serve --goodput` counts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlab.core.measure import RequestRow
from kvlab.core.objectives import Objective, goodput, meets, objectives

GOLDEN = Path(__file__).parent.parent / "golden" / "load" / "vllm_goodput.json"


def row(ttft: float, tpot: float | None, e2e: float, error: str | None = None) -> RequestRow:
    return RequestRow(index=0, prompt_id="p", scheduled=0, sent=0, ttft=ttft, tpot=tpot, e2e=e2e, error=error)


ASKED = objectives(["ttft:500 tpot:50 e2el:2000"])
# (ttft, tpot, e2e) in seconds against ttft:500 tpot:50 e2el:2000, by the rules of calculate_metrics in vLLM 0.32's
# benchmarks/serve.py: every objective met, a limit that is reached is met, an answer of one token has tpot 0, and a
# request that failed is in no list.
CASES = [
    (row(0.4, 0.04, 1.9), True),
    (row(0.5, 0.05, 2.0), True),
    (row(0.501, 0.04, 1.9), False),
    (row(0.4, 0.051, 1.9), False),
    (row(0.4, 0.04, 2.001), False),
    (row(0.4, None, 0.4), True),
    (row(0.4, 0.04, 1.9, "cut: the connection broke"), False),
]


@pytest.mark.parametrize(("one", "good"), CASES)
def test_a_good_request_meets_every_objective(one: RequestRow, good: bool) -> None:
    assert meets(one, ASKED) is good


def test_goodput_is_good_requests_a_second() -> None:
    rows = [one for one, _ in CASES]
    assert goodput(rows, 2.0, ASKED) == pytest.approx(1.5)
    assert goodput(rows, 2.0, ASKED[:1]) == pytest.approx(2.5)
    assert goodput(rows, 2.0, ()) is None


def test_goodput_is_that_of_vllm() -> None:
    document = json.loads(GOLDEN.read_text())
    rows = [
        row(
            one["ttft"],
            (one["latency"] - one["ttft"]) / (one["tokens"] - 1) if one["tokens"] > 1 else None,
            one["latency"],
            None if one["ok"] else "http 500: no",
        )
        for one in document["rows"]
    ]
    assert len(document["cases"]) == 6
    for case in document["cases"]:
        asked = [Objective(metric, limit) for metric, limit in case["objectives"].items()]
        found = goodput(rows, document["duration"], asked)
        assert found == pytest.approx(case["request_goodput"]), case
