"""A lab after a kill, on a full disk, under two commands, and from an older kvlab."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from kvlab import cli, resuming, store
from kvlab.core.errors import BadInput
from kvlab.core.record import Record
from kvlab.lab import Lab
from kvlab.settings import Settings
from kvlab.verifying import VerifySpec

FULL = """
import sys, pathlib
from kvlab.core.errors import BadInput
from kvlab.lab import Lab
lab, room = Lab(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[1], "filler")
room.write_bytes(b"x" * 100_000)
lab.save("kept.json", ["a" * 20_000])
try:
    lab.save("kept.json", ["b" * 150_000])
except BadInput as problem:
    print(problem)
assert lab.load("kept.json", list) == ["a" * 20_000]
try:
    lab.save("runs/1-a/run.json", ["b" * 150_000])
except BadInput as problem:
    print(problem)
assert not lab.has("runs/1-a/run.json")
print([path.name for path in lab.folder.rglob(".kvlab-*")])
room.unlink()
print(len(lab.once("runs/1-a/run.json", list, lambda: ["b" * 150_000])[0]))
"""


def test_a_full_disk_is_one_line_and_half_writes_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=256k tmpfs "{disk}" && exec "$0" "$@"'
    words = [*_namespace(), "sh", "-c", mount, sys.executable, "-c", FULL, str(disk)]
    done = subprocess.run(words, capture_output=True, text=True)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    first, second, left, room = done.stdout.splitlines()
    assert first.startswith(f"cannot write {disk}/kept.json: No space left on device")
    assert second.startswith(f"cannot write {disk}/runs/1-a/run.json: No space left on device")
    assert left == "[]"
    assert room == "150000"


def _namespace() -> list[str]:
    """A mount that only the test sees, with or without being root."""
    return ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]


def test_a_writer_that_is_killed_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    code = (
        "import sys\nfrom kvlab import store\n"
        "for n in range(10**6): store.write_atomic(sys.argv[1], store.encode([n] * 20_000))"
    )
    for moment in (0.05, 0.02, 0.11):
        with subprocess.Popen([sys.executable, "-c", code, str(path)]) as process:
            while not path.exists():
                time.sleep(0.01)
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
        found = store.read(path, list[int], "file")
        assert len(found) == 20_000
        assert len(set(found)) == 1
        path.unlink()
    store.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_leaves_what_a_living_process_writes(tmp_path: Path) -> None:
    (tmp_path / f".kvlab-{os.getpid()}-x").write_text("being written")
    (tmp_path / ".kvlab-notanumber").write_text("of somebody else")
    assert store.sweep(tmp_path) == 0


def test_a_lab_that_was_killed_in_its_first_write_is_begun_again(lab: Path, tmp_path: Path) -> None:
    settings = Lab(lab).load("lab.json", Settings)
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
    ).stdout
    new = tmp_path / "new"
    new.mkdir()
    (new / f".kvlab-{dead.strip()}-abc").write_text("{")
    with Lab(new).claimed(settings):
        assert sorted(path.name for path in new.iterdir()) == [".lock", "lab.json"]


def test_two_commands_do_not_work_in_one_lab_and_readers_do(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Lab(lab).load("lab.json", Settings)
    with Lab(lab).claimed(settings):
        with (
            pytest.raises(BadInput, match="another kvlab works"),
            Lab(lab).claimed(VerifySpec(lock="kvlab.lock", lock_sha256="0", runs=1)),
        ):
            pass
        assert cli.main(["history", str(lab)]) == 0
        assert cli.main(["freeze", str(lab), "-o", str(tmp_path / "deploy")]) == 0
        assert cli.main(["report", str(lab)]) == 0
    with (
        pytest.raises(BadInput, match="folder of another command"),
        Lab(lab).claimed(VerifySpec(lock="kvlab.lock", lock_sha256="0", runs=1)),
    ):
        pass


def test_a_lab_of_the_first_kvlab_means_what_it_meant(first_lab: Path) -> None:
    settings = Lab(first_lab).load("lab.json", Settings)
    assert (settings.blocks, settings.sequential) == (1, False)  # one block, A B B A
    record = Lab(first_lab).load("record.json", Record)
    assert record.sittings == ()  # it was not interrupted
    assert [run.arm for run in record.runs] == ["a", "b", "b", "a"]
    with Lab(first_lab).claimed(settings):
        pass
    assert cli.main(["report", str(first_lab)]) == 0


def test_what_is_done_and_what_is_left_is_said(lab: Path) -> None:
    (lab / "record.json").unlink()
    shutil.rmtree(lab / "runs" / "3-b")
    found = resuming.standing(lab)
    assert found.done == ("run 1 (A)", "run 2 (B)", "run 4 (A)")
    assert found.left[0] == "run 3 (B)"
    assert not found.finished
    told = resuming.told(lab)
    assert told is not None
    assert "done: run 1 (A), run 2 (B), run 4 (A); left: run 3 (B)" in told
    assert "taken up" not in told  # it is said before another kvlab may be found at work there


def test_a_newer_lab_is_refused_in_one_line(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, schema in (("lab.json", "kvlab/lab"), ("record.json", "kvlab/record")):
        path = lab / name
        path.write_text(path.read_text().replace(f'"{schema}@1"', f'"{schema}@2"'))
    settings = msgspec.json.decode((Path(__file__).parents[1] / "golden/keep/lab/lab.json").read_bytes(), type=Settings)
    with pytest.raises(BadInput, match="newer kvlab") as refused, Lab(lab).claimed(settings):
        pass
    assert "delete" not in str(refused.value)
    for words in (["report", str(lab)], ["freeze", str(lab), "-o", str(lab)], ["ab", "--resume", str(lab)]):
        assert cli.main(words) == 2
        line = capsys.readouterr().err.strip()
        assert "\n" not in line
        assert "upgrade kvlab" in line
