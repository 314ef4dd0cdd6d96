"""On the embedded engine: killed at two moments and completed; a frozen configuration run again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

import kvlab
from kvlab import cli

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import kill_nine

pytestmark = pytest.mark.e2e


def test_killed_twice_it_leaves_nothing_running_and_completes(gemma: Path, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    # while the second engine loads, and right after its run was written
    for awaited in (lab / "runs" / "2-b" / "engine.log", lab / "runs" / "2-b" / "run.json"):
        mark = uuid.uuid4().hex
        with kill_nine.started(kill_nine.words(str(gemma), lab), mark) as process:
            deadline = time.monotonic() + 200
            while not awaited.exists():
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.02)
            assert kill_nine.marked(mark)
            process.send_signal(signal.SIGKILL)
        assert kill_nine.left_after(mark) is not None
        assert kill_nine.reads(lab) == (True, True)
    done = kill_nine.state(lab)
    assert list(done) == ["runs/1-a/run.json", "runs/2-b/run.json"]
    words = [sys.executable, "-m", "kvlab", "ab", "--resume", str(lab), "--json"]
    last = subprocess.run(words, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    assert last.stderr.splitlines()[0].endswith("done: run 1 (A), run 2 (B); left: run 3 (B), run 4 (A)")
    assert json.loads(last.stdout)["schema"] == "kvlab/ab@1"
    assert {name: when for name, when in kill_nine.state(lab).items() if name in done} == done


def test_a_frozen_configuration_is_run_again(
    first_lab: Path, gemma: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kvlab.freeze(first_lab, tmp_path / "deploy", arm="a")
    (tmp_path / "gemma.gguf").symlink_to(gemma)
    monkeypatch.chdir(tmp_path)
    words = ["verify", "deploy/kvlab.lock", "--runs", "1", "--json"]
    code = cli.main(words)
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "kvlab/verify@1"
    assert code == int(document["verdict"]["code"] == "regression")
    # the same model and the same tokenizer make the same prompts of the same seed
    assert document["prompts"]["same"] is True
    assert {row["verdict"] for row in document["check"]["rows"]} == {"agrees"}
    changed = {one["name"] for one in document["changed"]}
    assert not any(name.startswith("flag ") for name in changed)
    measured = json.loads((tmp_path / "kvlab-verify" / "runs" / "1" / "result.json").read_text())
    assert measured["completed"] == 2
    row = next(row for row in document["performance"] if row["metric"] == "mean_ttft_ms")
    assert row["b"] == pytest.approx(measured["mean_ttft_ms"])
    assert row["verdict"] == "inconclusive"  # two requests tell nothing
    entries = kvlab.history(tmp_path).entries
    assert {entry.kind for entry in entries} == {"run", "experiment", "freeze", "verify"}
    # a finished verify is not taken for a new one
    assert cli.main([*words, "--lab", "kvlab-verify"]) == 2
    assert "holds a finished verify" in capsys.readouterr().err
