"""Logs of another GPU than the plan's, and what a start cannot have taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.check import Check, Reason
from kvlab.core.errors import BadInput
from kvlab.core.plan import Plan

GOLDEN = Path(__file__).parents[1] / "golden"
LLAMA = GOLDEN / "configs" / "meta-llama__Llama-3.1-8B.json"
A100 = GOLDEN / "vllm" / "logs" / "0.31.0_llama_3.1_8b_a100.log"
"""Of a GPU with 79.25 GiB by its own line, with --max-model-len 131072."""
OFFER = "--learn keeps it"


def planned(**options: object) -> Plan:
    asked = {"gpu": "rtx4090-24gb", "context": 8192, "engine_version": "0.31.0", **options}
    return api.plan(LLAMA, **asked)  # type: ignore[arg-type]


def by_code(check: Check) -> dict[str, Reason]:
    return {reason.code: reason for reason in check.causes}


def test_another_gpu_and_context_explain_every_row() -> None:
    found = api.check(A100, plan=planned(), source=LLAMA)
    reasons = by_code(found)
    assert set(reasons) == {"other_gpu", "context"}
    assert reasons["other_gpu"].text == (
        "the log is of another GPU: it has 79.25 GiB, the plan's 23.52 GiB: plan with --gpu a100-pcie-80gb"
    )
    assert "kv_pool_bytes" in reasons["other_gpu"].explains
    assert found.remarks[0].endswith("plan with --context 131072 --gpu a100-pcie-80gb")


def test_another_gpu_is_named_where_the_model_is_not_found() -> None:
    plan = planned()
    found = api.check(A100, plan=plan)
    assert by_code(found)["other_gpu"].certainty == "stated"
    assert "overhead_estimate" not in by_code(found)


def test_a_gpu_of_the_plans_memory_is_no_other() -> None:
    assert "other_gpu" not in by_code(api.check(A100, plan=planned(gpu="a100-80gb"), source=LLAMA))
    assert "other_gpu" not in by_code(api.check(A100, plan=planned(gpu=None, gpu_gib=79.25), source=LLAMA))


def test_a_gpu_that_was_given_by_size_is_planned_by_name() -> None:
    found = api.check(A100, plan=planned(gpu=None, gpu_gib=40.0, context=131072), source=LLAMA)
    assert by_code(found)["other_gpu"].certainty in ("exact", "stated")
    assert "--gpu a100-pcie-80gb" in by_code(found)["other_gpu"].text


def test_another_gpu_teaches_nothing(kept: Path) -> None:
    with pytest.raises(BadInput, match="another GPU"):
        api.check(A100, plan=planned(), source=LLAMA, learn=True)
    assert not kept.exists()


def test_nothing_takes_less_than_nothing(tmp_path: Path) -> None:
    lines = [line for line in A100.read_text().splitlines() if "Free memory on device" not in line]
    log = tmp_path / "engine.log"
    log.write_text("\n".join(lines))
    for source in (None, LLAMA):
        found = api.check(log, plan=planned(), source=source)
        assert not any(OFFER in reason.text or reason.code == "overhead_estimate" for reason in found.causes)
        assert not any(OFFER in (row.likely_because or "") for row in found.rows)


def test_far_more_than_estimated_is_no_overhead_to_learn(tmp_path: Path, kept: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(A100.read_text().replace("56.21 GiB", "40.21 GiB").replace("460,496", "329,424"))
    plan = planned(gpu="a100-pcie-80gb", context=131072)
    for source in (None, LLAMA):
        # 79.25 x 0.92 - 15.0 - 40.21 GiB
        with pytest.raises(BadInput, match=r"not learned: by the log 17\.70 GiB are neither.* --overhead-gib 17\.70$"):
            api.check(log, plan=plan, source=source, learn=True)
        found = api.check(log, plan=plan, source=source)
        assert "overhead_estimate" in by_code(found)
        assert not any(OFFER in reason.text for reason in found.causes)
    assert not kept.exists()
    # what the log as it was says is learned
    assert api.check(A100, plan=plan, source=LLAMA, learn=True).learned is not None


@pytest.mark.parametrize("util", [None, 0.9])
def test_learning_is_offered_where_it_is_done(tmp_path: Path, util: float | None) -> None:
    log = tmp_path / "engine.log"
    log.write_text(A100.read_text().replace("56.21 GiB", "53.21 GiB").replace("460,496", "435,904"))
    plan = planned(gpu="a100-pcie-80gb", context=131072, util=util)
    found = api.check(log, plan=plan)
    assert OFFER in by_code(found)["overhead_estimate"].text
    assert found.rows[0].likely_because == by_code(found)["overhead_estimate"].text
    assert api.check(log, plan=plan, learn=True).learned is not None
