"""A program of others below the supervisor: watched until it ends, and ended with all that it started."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kvlab.interrupts import signals_held

_POLL_SECONDS = 0.1
_STOP_SECONDS = 20.0
"""The supervisor asks for 10 s and then kills."""


def run(argv: Sequence[str], log: Path, *, env: Mapping[str, str], cwd: Path | None, watch: Callable[[], None]) -> int:
    """Runs `argv`, both outputs in the file `log`, and returns its exit code.

    `watch` is called ten times a second, and once more when all has been written.

    When this is interrupted, or `watch` raises, the program and all that it started have ended before this raises.
    """
    with log.open("wb") as out, signals_held() as answer:
        process = subprocess.Popen(
            (sys.executable, "-m", "kvlab.supervisor", "--", *argv),
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    try:
        answer()
        while (code := process.poll()) is None:
            time.sleep(_POLL_SECONDS)
            watch()
        watch()
        return code
    finally:
        assert process.stdin is not None
        process.stdin.close()  # the supervisor ends everything
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
