"""Starting and stopping the real engine: nothing outlives kvlab, and every failure is one clear line."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from kvlab import api, logsize
from kvlab.core.errors import EngineFailed
from kvlab.core.plan import Plan
from kvlab.launch import DYING_SECONDS, Command, Server, start

pytestmark = pytest.mark.e2e


@pytest.fixture
def plan(gemma: Path) -> Plan:
    return api.plan(gemma, engine="llamacpp", context=1024, parallel=1, engine_args={"embedded": "true"})


def started_by(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def gone(processes: list[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def test_leaving_the_context_stops_everything(plan: Plan, tmp_path: Path) -> None:
    with start(plan, tmp_path / "engine.log") as server:
        assert server.alive()
        processes = [psutil.Process(server.pid), *started_by(server.pid)]
        assert len(processes) >= 2  # the supervisor and the engine
    assert gone(processes)
    assert "listening on" in (tmp_path / "engine.log").read_text()


SCRIPT = """
import pathlib, sys, time
from kvlab import api, logsize
from kvlab.launch import DYING_SECONDS, Command, Server, start
plan = api.plan(sys.argv[1], engine="llamacpp", context=1024, parallel=1, engine_args={"embedded": "true"})
with start(plan, pathlib.Path(sys.argv[2])):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_killed_parent_leaves_nothing_running(gemma: Path, tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(gemma), str(tmp_path / "engine.log")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        processes = started_by(parent.pid)
        assert len(processes) >= 2
        parent.send_signal(number)
        parent.wait(timeout=30)
        assert wait_for(lambda: gone(processes))


def test_a_parent_killed_while_loading_leaves_nothing_running(gemma: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(gemma), str(tmp_path / "engine.log")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as parent:
        assert wait_for(lambda: len(started_by(parent.pid)) >= 2)
        processes = started_by(parent.pid)
        parent.kill()
        parent.wait(timeout=30)
        assert wait_for(lambda: gone(processes))


def test_a_taken_port_is_named_with_its_holder(plan: Plan, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(EngineFailed, match=rf"port {port} is taken by .* \(pid {os.getpid()}\)"):
            start(plan, tmp_path / "engine.log", port=port)


def test_a_missing_binary_says_how_to_get_it(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_SERVER", str(tmp_path / "no-such-binary"))
    bare = msgspec.structs.replace(plan, ask=msgspec.structs.replace(plan.ask, engine_args=()))
    with pytest.raises(EngineFailed, match=r"cannot run .*no-such-binary: No such file"):
        start(bare, tmp_path / "engine.log")


def test_a_second_interrupt_hurries_the_stop_and_comes_after_it(plan: Plan, tmp_path: Path) -> None:
    stubborn = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(600)"
    log = tmp_path / "engine.log"
    what = Command(engine="llamacpp", argv=(sys.executable, "-u", "-c", stubborn), env={}, port=1)
    server = Server(what, log)
    assert wait_for(lambda: "up" in log.read_text())
    processes = started_by(server.pid)
    began = time.monotonic()
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        server.stop()
    assert gone(processes)
    assert time.monotonic() - began < 9  # asked first, it would be given 10 s


def test_a_log_that_grows_for_weeks_keeps_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logsize, "MOST_BYTES", 100_000)
    monkeypatch.setattr(logsize, "KEPT_BYTES", 10_000)
    chatty = (
        "import time; print('n_ctx = 512')\nfor at in range(10**9): print(f'line {at}\\n', end=''); time.sleep(0.0001)"
    )
    log = tmp_path / "engine.log"
    with Server(Command(engine="llamacpp", argv=(sys.executable, "-u", "-c", chatty), env={}, port=1), log) as server:
        assert wait_for(lambda: log.stat().st_size > 100_000)
        assert server.died() is None
        text = log.read_text()
        assert text.startswith("n_ctx = 512\nline 0\n")
        (cut,) = re.findall(r"^kvlab: ([\d,]+) bytes were cut off here; .* engine\.log\.earlier$", text, re.MULTILINE)
        assert int(cut.replace(",", "")) >= 90_000
        assert wait_for(lambda: log.stat().st_size > len(text))  # the engine writes on
    for part in (log, tmp_path / "engine.log.earlier"):
        numbers = [int(line.split()[1]) for line in part.read_text().splitlines()[1:] if line.startswith("line ")]
        assert numbers == sorted(numbers)
        assert len(numbers) > 500


def test_an_engine_that_dies_says_so(plan: Plan, tmp_path: Path) -> None:
    with start(plan, tmp_path / "engine.log") as server:
        assert server.died() is None
        engine = next(process for process in started_by(server.pid) if not process.children())
        engine.kill()
        # at once: the supervisor needs a moment to notice, and the caller of died() must not be told "still there"
        assert "died while it was serving (exit code 137; killed from outside" in str(server.died(DYING_SECONDS))
        assert "died while it was serving (exit code 137; killed from outside" in str(server.died())
