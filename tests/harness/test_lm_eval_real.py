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
    """Arm B is the same server, asked at temperature 2: it forgets capitals that it knows."""
    other = llama_server.url.replace("127.0.0.1", "localhost")
    found = kvlab.quality(
        llama_server.url,
        other,
        parts=("lm-eval",),
        lm_eval=("kvlab_capitals",),
        lm_eval_bin=os.environ["KVLAB_LM_EVAL"],
        lm_eval_include=TASKS,
        b_temperature=2.0,
        lab=tmp_path / "lab",
    )
    (part,) = found.parts
    assert found.gate is not None
    assert (part.verdict, found.gate.verdict) == ("fail", "fail")
    assert "kvlab_capitals: exact_match, by lm_eval 0.4" in part.because
    accuracy = next(figure for figure in part.numbers if figure.name == "accuracy")
    again = next(figure for figure in part.numbers if figure.name == "accuracy of A again")
    assert accuracy.a is not None
    assert accuracy.b is not None
    assert accuracy.a.value > 0.7
    assert accuracy.b.value < accuracy.a.value
    assert again.difference is not None
    assert again.difference.value == 0.0
