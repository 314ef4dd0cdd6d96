"""Files read on a Ray of two workers against the same files read without: make test-ray."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

TRACE = Path(__file__).parents[1] / "tests" / "golden" / "traces" / "mooncake_conversation_trace.jsonl.gz"
FILES = 20


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Mooncake's conversation trace as consecutive files."""
    folder = tmp_path_factory.mktemp("cut")
    with gzip.open(TRACE, "rt") as rows:
        lines = rows.readlines()
    each = -(-len(lines) // FILES)
    paths = [folder / f"{at:02}.jsonl" for at in range(FILES)]
    for at, path in enumerate(paths):
        path.write_text("".join(lines[at * each : (at + 1) * each]))
    return [str(path) for path in paths]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kvlab", "traffic", "--json", *arguments]


def said(*arguments: str) -> dict[str, object]:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("share", ["100%", "5%"])
def test_ray_says_what_a_run_without_it_says(cut: list[str], share: str) -> None:
    alone = said(*cut, "--sample", share)
    assert said(*cut, "--sample", share, "--ray", "local") == alone
    whole = said(str(TRACE), "--sample", share)
    if share == "100%":
        assert {**alone, "files": None} == {**whole, "files": None}
        return
    # Files that share blocks do not tell how often each of all is referred to, the whole one does: the same sample,
    # weighed otherwise.
    for found in (alone, whole):
        reuse = found["reuse"]
        assert isinstance(reuse, dict)
        assert reuse["sampled"]["blocks"] == 9_182
        assert abs(reuse["ideal"]["hit_blocks"] - 105_710) <= 288_500 * reuse["sampled"]["error"]


def test_a_bad_file_is_named_in_one_line(cut: list[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("no trace\n")
    done = subprocess.run(command(*cut, str(bad), "--ray", "local"), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert str(bad) in done.stderr


def test_a_ray_that_is_not_there(cut: list[str]) -> None:
    done = subprocess.run(command(cut[0], "--ray", "127.0.0.1:1"), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "127.0.0.1:1" in done.stderr.splitlines()[-1]


def test_ctrl_c_stops_the_ray_that_was_started(cut: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        process = subprocess.Popen(
            command(*cut, "--ray", "local"),
            env={**os.environ, "TMPDIR": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started = workers(process)
        addresses = {
            one.laddr.ip for part in started for one in part.net_connections("inet") if one.status == psutil.CONN_LISTEN
        }
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        _, alive = psutil.wait_procs(started, timeout=20)
        assert not alive
        assert not list(Path(folder).iterdir())
        assert addresses <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


def workers(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The processes below it, once a raylet is among them and has started others."""
    for _ in range(600):
        below = psutil.Process(process.pid).children(recursive=True)
        raylets = [one for one in below if one.name() == "raylet"]
        if raylets and raylets[0].children():
            return below
        assert process.poll() is None
        time.sleep(0.1)
    raise AssertionError("no raylet was started")
