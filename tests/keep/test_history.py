"""What `kvlab history` lists: labs, results, locks, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kvlab
from kvlab import cli
from kvlab.core.errors import BadInput

RESULTS = Path(__file__).parents[1] / "golden" / "results"


def test_runs_results_and_locks_in_time(lab: Path, first_lab: Path, tmp_path: Path) -> None:
    kvlab.freeze(lab, tmp_path / "deploy")
    (tmp_path / "bench.json").write_bytes((RESULTS / "vllm_0.32.json").read_bytes())
    (tmp_path / "package.json").write_text('{"name": "not a result"}')
    found = kvlab.history(tmp_path)
    kinds = [entry.kind for entry in found.entries]
    assert {kind: kinds.count(kind) for kind in kinds} == {"run": 8, "experiment": 2, "freeze": 1, "bench": 1}
    assert found.left_out == ()
    times = [entry.time or "" for entry in found.entries]
    assert times == sorted(times)
    measured = json.loads((lab / "runs" / "1-a" / "result.json").read_text())
    first = next(entry for entry in found.entries if entry.path == "lab/runs/1-a")
    assert first.metrics["mean_ttft_ms"] == measured["mean_ttft_ms"]
    assert first.version is None  # the log is not here
    result = json.loads((RESULTS / "vllm_0.32.json").read_text())
    bench = next(entry for entry in found.entries if entry.kind == "bench")
    assert bench.metrics["output_throughput"] == result["output_throughput"]


def test_the_own_file_of_another_load_generator_is_no_second_run(tmp_path: Path) -> None:
    own = (RESULTS / "aiperf_0.13_aiperf.json").read_bytes()
    (tmp_path / "one.aiperf.json").write_bytes(own)
    (tmp_path / "two.aiperf.json").write_bytes(own)
    made = json.loads((RESULTS / "vllm_0.32.json").read_text())
    made["kvlab"] = {"schema": "kvlab/bench@1", "latency_from": "sent", "runner": {"name": "aiperf"}}
    (tmp_path / "one.json").write_text(json.dumps(made))
    assert sorted(entry.path for entry in kvlab.history(tmp_path).entries) == ["one.json", "two.aiperf.json"]


def test_an_unfinished_lab_shows_its_finished_runs(lab: Path) -> None:
    (lab / "record.json").unlink()
    (lab / "runs" / "4-a" / "run.json").unlink()
    entries = kvlab.history(lab.parent).entries
    assert [entry.path for entry in entries if entry.kind == "run"] == ["lab/runs/1-a", "lab/runs/2-b", "lab/runs/3-b"]
    assert next(entry for entry in entries if entry.kind == "experiment").verdict == "unfinished, 3 runs done"


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(lab: Path, first_lab: Path) -> None:
    (first_lab / "record.json").write_text("{")
    found = kvlab.history(lab.parent)
    assert [one.path for one in found.left_out] == ["first-lab/record.json"]
    assert sum(entry.kind == "run" for entry in found.entries) == 4


def test_charts_and_the_terminal(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    png, svg = tmp_path / "x.png", tmp_path / "x.svg"
    assert cli.main(["history", str(lab), "--metric", "mean_ttft_ms", "-o", str(png)]) == 0
    out = capsys.readouterr().out
    assert "1,133" in out
    assert "#" in out
    assert png.read_bytes().startswith(b"\x89PNG")
    assert cli.main(["history", str(lab), "--metric", "mean_ttft_ms", "-o", str(svg)]) == 0
    assert svg.read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    capsys.readouterr()
    assert cli.main(["history", str(lab), "--json", "-o", str(tmp_path / "h.json")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((tmp_path / "h.json").read_text())
    assert document["schema"] == "kvlab/history@1"


def test_questions_without_an_answer(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", str(lab), "--metric", "mean_tft_ms"]) == 2
    assert "did you mean mean_ttft_ms" in capsys.readouterr().err
    assert cli.main(["history", str(lab), "-o", str(tmp_path / "x.png")]) == 2
    with pytest.raises(BadInput, match="is no folder"):
        kvlab.history(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    assert kvlab.history(tmp_path / "empty").entries == ()
