"""Objectives as they are written, and which requests meet them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.errors import BadInput
from kvlab.core.measure import RequestRow
from kvlab.core.objectives import Objective, meets, objective, objectives


def row(**fields: object) -> RequestRow:
    base: dict[str, object] = {"index": 0, "prompt_id": "0", "scheduled": 0.0, "sent": 0.0}
    return RequestRow(**(base | {"ttft": 0.4, "tpot": 0.05, "e2e": 2.0, "output_tokens": 30} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ttft:500", Objective("ttft", 500.0)),
        ("TPOT:12.5", Objective("tpot", 12.5)),
        ("e2el:2000ms", Objective("e2el", 2000.0)),
        ("e2e:2000", Objective("e2el", 2000.0)),
    ],
)
def test_an_objective_is_read(text: str, expected: Objective) -> None:
    assert objective(text) == expected


@pytest.mark.parametrize("text", ["ttft", "ttft:", "ttft:-1", "ttft:0", "ttft:nan", "ttft:inf", "tfft:500", "", ":5"])
def test_what_is_no_objective_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInput, match=r"ttft|known") as refused:
        objective(text)
    assert "\n" not in str(refused.value)


def test_a_misspelt_name_is_completed() -> None:
    with pytest.raises(BadInput, match="did you mean ttft"):
        objective("tfft:500")


def test_several_at_once_and_none_twice() -> None:
    assert [one.text for one in objectives(["ttft:500,tpot:50", "e2el:9000"])] == ["ttft:500", "tpot:50", "e2el:9000"]
    with pytest.raises(BadInput, match="twice"):
        objectives(["ttft:500", "ttft:600"])


@given(st.text(max_size=20))
def test_any_text_is_an_objective_or_is_refused(text: str) -> None:
    try:
        found = objective(text)
    except BadInput:
        return
    assert 0 < found.limit_ms < float("inf")


def test_every_objective_must_be_met() -> None:
    asked = objectives(["ttft:400 tpot:50"])
    assert meets(row(), asked)
    assert not meets(row(ttft=0.4001), asked)
    assert not meets(row(tpot=0.0501), asked)


def test_a_failed_request_meets_nothing() -> None:
    assert not meets(row(error="timeout"), ())


def test_an_answer_of_one_token_has_no_time_per_token_to_miss() -> None:
    """`vllm bench serve` counts its TPOT as 0 for goodput (benchmarks/serve.py, calculate_metrics)."""
    assert meets(row(tpot=None, output_tokens=1), objectives(["tpot:1"]))
    assert not meets(row(ttft=None), objectives(["ttft:500"]))
