"""An engine whose kvlab was killed while another process still holds the pipe open by which that is noticed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil

PARENT = """
import os, subprocess, sys, time
engine = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text('up'); time.sleep(300)"
words = [sys.executable, "-m", "kvlab.supervisor", "--", sys.executable, "-c", engine, sys.argv[1]]
below = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
if os.fork() == 0:  # holds the pipe's end open, as a worker that was forked would
    time.sleep(300)
    os._exit(0)
print(below.pid, flush=True)
time.sleep(300)
"""


def test_the_engine_ends_though_the_pipe_stays_open(tmp_path: Path) -> None:
    up = tmp_path / "up"
    with subprocess.Popen([sys.executable, "-c", PARENT, str(up)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        supervisor = psutil.Process(int(parent.stdout.readline()))
        while not up.exists():
            assert parent.poll() is None
        below = [supervisor, *supervisor.children()]
        holder = next(child for child in psutil.Process(parent.pid).children() if child.pid != supervisor.pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        _, alive = psutil.wait_procs(below, timeout=20)
        assert holder.is_running()
        holder.kill()
        assert alive == []
