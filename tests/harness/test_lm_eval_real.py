"""lm-evaluation-harness itself, on the embedded engine: `make test-lm-eval LM_EVAL=/path/to/lm_eval`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kvlab
from kvlab.launch import Server

TASKS = Path(__file__).parents[1] / "golden" / "lm_eval" / "task"
pytestmark = pytest.mark.skipif("KVLAB_LM_EVAL" not in os.environ, reason="make test-lm-eval names lm_eval")


def test_a_task_file_of_ones_own_on_the_embedded_engine(llama_server: Server, tmp_path: Path) -> None:
    """Arm B is the same server under another name, so that nothing may change; 24 documents exclude no loss of 1 %."""
    other = llama_server.url.replace("127.0.0.1", "localhost")
    found = kvlab.quality(
        llama_server.url,
        other,
        parts=("lm-eval",),
        lm_eval=("kvlab_capitals",),
        lm_eval_bin=os.environ["KVLAB_LM_EVAL"],
        lm_eval_include=TASKS,
        lab=tmp_path / "lab",
    )
    (part,) = found.parts
    assert found.gate is not None
    assert (part.verdict, found.gate.verdict) == ("inconclusive", "inconclusive"), part.because
    assert "kvlab_capitals: exact_match, by lm_eval 0.4" in part.because
    assert "paired" in part.because
    figures = {figure.name: figure for figure in part.numbers}
    accuracy, again = figures["accuracy"], figures["accuracy of A again"]
    stated = figures["kvlab_capitals exact_match (as lm_eval states it)"]
    assert accuracy.a is not None
    assert stated.a is not None
    assert accuracy.a.value == pytest.approx(stated.a.value)
    assert accuracy.a.value > 0.7
    for figure in (accuracy, again):
        assert figure.difference is not None
        assert figure.difference.value == 0.0
    logs = list((tmp_path / "lab" / "gate").rglob("lm_eval.log"))
    assert len(logs) == 3


def test_sampled_answers_fail(llama_server: Server, tmp_path: Path) -> None:
    """Arm B is broken on purpose: lists and JSON written at temperature 1, over the task's own `do_sample: false`."""
    found = kvlab.quality(
        llama_server.url,
        llama_server.url.replace("127.0.0.1", "localhost"),
        parts=("lm-eval",),
        b_temperature=1.0,
        lm_eval=("kvlab_written",),
        lm_eval_bin=os.environ["KVLAB_LM_EVAL"],
        lm_eval_include=TASKS,
        lab=tmp_path / "lab",
    )
    (part,) = found.parts
    assert found.gate is not None
    assert (part.verdict, found.gate.verdict) == ("fail", "fail"), part.because
    accuracy, again = (figure.difference for figure in part.numbers[:2])
    assert accuracy is not None
    assert again is not None
    assert accuracy.high < -0.01 < again.value
