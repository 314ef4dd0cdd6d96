"""What stands between kvlab and an engine."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path


def test_an_engine_that_starts_programs_while_it_stops_is_left_to_finish(tmp_path: Path) -> None:
    started, ended = tmp_path / "started", tmp_path / "ended"
    script = f"""
        stop() {{
            i=0
            while [ $i -lt 300 ]; do /bin/true; i=$((i + 1)); done
            touch {shlex.quote(str(ended))}
            exit 7
        }}
        trap stop TERM
        touch {shlex.quote(str(started))}
        while :; do sleep 0.05; done
    """
    words = (sys.executable, "-m", "kvlab.supervisor", "--", "/bin/sh", "-c", script)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        while not started.exists():
            assert process.poll() is None
        process.stdin.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait() == 7
    assert ended.exists()
