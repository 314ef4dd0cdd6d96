"""Programs of others, watched while they run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

from kvlab import supervised


def test_what_a_program_writes_last_is_seen_however_soon_it_ends(tmp_path: Path) -> None:
    go, log, seen = tmp_path / "go", tmp_path / "log", list[str]()
    before = set(psutil.Process().children())

    def watch() -> None:
        seen.append(log.read_text())
        if not go.exists():
            (supervisor,) = set(psutil.Process().children()) - before
            go.touch()
            while supervisor.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)

    words = ("/bin/sh", "-c", f"while ! [ -e '{go}' ]; do sleep 0.01; done; echo last; exit 3")
    assert supervised.run(words, log, env=os.environ, cwd=None, watch=watch) == 3
    assert seen[0] == ""
    assert seen[-1] == "last\n"
