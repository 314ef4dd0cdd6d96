"""Stands between kvlab and an engine so that nothing outlives kvlab: `python -m kvlab.supervisor -- ARGV`.

Standard input is a pipe that kvlab holds open and never writes to. When it closes (kvlab asked for a stop, or was
killed), or this process gets another parent (kvlab was killed while a process that it had started holds the pipe open),
every process that the engine started is ended: asked first (SIGTERM), and killed after a grace period, or at once when
this process gets a SIGTERM meanwhile. Exits with the engine's own exit code.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

GRACE_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the process group alone is relied on."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _die_with_supervisor() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _descendants() -> list[int]:
    """Every living process below this one. As a subreaper it inherits those whose parents have gone."""
    import psutil

    def lives(child: psutil.Process) -> bool:
        try:
            return bool(child.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:  # it ended after it was listed
            return False

    return [child.pid for child in psutil.Process().children(recursive=True) if lives(child)]


def _signal_all(number: signal.Signals) -> None:
    for pid in _descendants():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _end(engine: subprocess.Popen[bytes], hurried: list[int]) -> None:
    """Asks, waits, kills; waits no longer once `hurried` holds a signal. Returns when no descendant is left."""
    hurried.clear()
    for number, patience in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, 5.0)):
        _signal_all(number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            engine.poll()
            if not _descendants():
                return
            if hurried and number is signal.SIGTERM:
                break
            time.sleep(0.02)


def main(argv: list[str]) -> int:
    """Runs `argv` until it exits or standard input closes."""
    parent = os.getppid()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    try:
        engine = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with_supervisor
        )
    except OSError as error:
        sys.stderr.write(f"kvlab: cannot run {argv[0]}: {error.strerror}\n")
        return 127
    while engine.poll() is None and not stopped and os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], 0.1)
        if readable and not os.read(0, 1):
            break
    _end(engine, stopped)
    code = engine.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[2:]))
