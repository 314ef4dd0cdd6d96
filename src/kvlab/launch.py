"""Start an engine, wait until it serves, notice early when it will not, and stop everything it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypedDict

import msgspec

from kvlab import engines
from kvlab.core.errors import EngineFailed
from kvlab.core.masking import masked
from kvlab.core.plan import Launch, Plan
from kvlab.failing import Failing
from kvlab.interrupts import signals_held
from kvlab.logsize import shorten
from kvlab.ports import free_port, refuse_taken

READY_SECONDS = 900.0
"""How long an engine may take to load: kernels that compile at the first start take minutes."""
_POLL_SECONDS = 0.05
_STOP_SECONDS = 20.0
_KILLED = 128 + signal.SIGKILL
"""As the supervisor passes it on."""
DYING_SECONDS = 3.0
"""How long a server that refuses connections may take to be gone, if it is dying."""

OnLine = Callable[[str], None]


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A start that can be tried: the words to run, the environment to add, and where it will listen."""

    engine: str
    argv: tuple[str, ...]
    env: dict[str, str]
    port: int
    files: dict[str, str] = {}
    """Files that words of argv, or values of env, name: they are written beside the log."""

    @property
    def url(self) -> str:
        """Base URL on loopback."""
        return f"http://127.0.0.1:{self.port}"


def command(plan: Plan, port: int | None = None) -> Command:
    """The plan's launch command as it can run on this machine, on `port` or a free one.

    Raises EngineFailed when the engine is not installed or the port is taken.
    """
    asked, port = port, free_port() if port is None else port
    words = as_run(plan, port)
    if asked is not None:
        refuse_taken(asked)
    named = (*words["argv"], *words["env"].values())
    files = {name: text for name, text in plan.launch.files.items() if name in named}
    return Command(engine=plan.engine.name, argv=words["argv"], env=words["env"], port=port, files=files)


class Words(TypedDict):
    """A launch command as this machine runs it."""

    argv: tuple[str, ...]
    env: dict[str, str]


def as_run(plan: Plan, port: int | None = None) -> Words:
    """The plan's words with this machine's program, listening on `port` (None: the engine's usual one).

    Raises EngineFailed when the engine is not installed.
    """
    launcher = engines.launcher(plan.engine.name)
    program = launcher.binary(plan.ask)
    if program is None:
        raise EngineFailed(launcher.missing)
    argv, env = _on_port(plan.launch, launcher.port_in, launcher.default_port if port is None else port)
    return Words(argv=(*program, *argv[1:]), env=env)


def _on_port(launch: Launch, port_in: str, port: int) -> tuple[tuple[str, ...], dict[str, str]]:
    """The same words and environment, listening elsewhere."""
    if not port_in.startswith("-"):
        return launch.argv, {**launch.env, port_in: f"127.0.0.1:{port}"}
    at = launch.argv.index(port_in)
    return (*launch.argv[: at + 1], str(port), *launch.argv[at + 2 :]), dict(launch.env)


class Server:
    """A running engine. Use as a context manager: leaving it, for whatever reason, stops all that was started."""

    def __init__(self, what: Command, log: Path) -> None:
        self.command = what
        self.url = what.url
        self.log = log
        self._failing = Failing(what.engine)
        self._ready_path = engines.launcher(what.engine).ready_path
        log.parent.mkdir(parents=True, exist_ok=True)
        argv, env = _with_files(what, log)
        log.write_bytes(b"")
        with log.open("ab") as out, signals_held() as answer:  # appending: it may be shortened while it is written
            self._process = subprocess.Popen(
                (sys.executable, "-m", "kvlab.supervisor", "--", *argv),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                start_new_session=True,
            )
            self._tail = log.open("r", encoding="utf-8", errors="replace")
        try:
            answer()
        except BaseException:
            self.stop()
            raise

    def wait_ready(self, timeout: float = READY_SECONDS, on_line: OnLine | None = None) -> None:
        """Returns once requests are served.

        Raises EngineFailed with the line that says why as soon as one appears, when the engine exits, or after
        `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        next_probe = 0.0
        while True:
            exited = self._process.poll() is not None
            self._read_log(on_line)
            if exited:
                raise self._exit_error("did not start")
            if self._failing:
                # a dying engine may print the true cause after the first sign of it
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout=2.0)
                self._read_log(on_line)
                raise self._exit_error("did not start")
            now = time.monotonic()
            if now > deadline:
                raise EngineFailed(f"{self.name} was not ready after {timeout:.0f} s; see {self.log}")
            if now >= next_probe:
                if _answers(self.url + self._ready_path):
                    return
                next_probe = now + 0.2
            time.sleep(_POLL_SECONDS)

    @property
    def name(self) -> str:
        """The engine's name as people write it."""
        return engines.engine(self.command.engine).title

    @property
    def pid(self) -> int:
        """The supervisor's process id: the engine and all it starts are below it."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the engine still runs."""
        return self._process.poll() is None

    def died(self, patience: float = 0.0) -> EngineFailed | None:
        """Why the engine is gone, when it is, or goes within `patience` seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=patience)
        alive = self.alive()
        self._read_log(None)
        if alive:
            if shorten(self.log):
                self._tail.seek(0, os.SEEK_END)
            return None
        return self._exit_error("died while it was serving")

    def _read_log(self, on_line: OnLine | None) -> None:
        for line in _whole_lines(self._tail):
            if on_line is not None:
                on_line(line)
            self._failing.feed(line)

    def _exit_error(self, how: str) -> EngineFailed:
        if self._failing:
            return EngineFailed(f"{self.name} {how}: {self._failing}; log: {self.log}")
        last = _last_line(self.log)
        code = self._process.poll()
        killed = "; killed from outside, most often by a system without memory (dmesg)" if code == _KILLED else ""
        said = f"; its last line: {masked(last)[:200]}" if last else ""
        return EngineFailed(f"{self.name} {how} (exit code {code}{killed}){said}; log: {self.log}")

    def stop(self) -> None:
        """Ends the engine and everything it started; returns when all of it is gone.

        A Ctrl-C meanwhile hurries the end and is raised again after it.
        """
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        interrupted: KeyboardInterrupt | None = None
        deadline = time.monotonic() + _STOP_SECONDS
        while self.alive():
            try:
                self._process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            except KeyboardInterrupt as again:
                interrupted = again
                self._process.terminate()  # the supervisor then kills instead of asking
        self._tail.close()
        if interrupted is not None:
            raise interrupted

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _with_files(what: Command, log: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """Writes the command's files beside the log; its words and its environment with their paths."""
    paths = {name: log.with_name(f"{log.stem}.{name}") for name in what.files}
    for name, text in what.files.items():
        paths[name].write_text(text, encoding="utf-8")
    argv = tuple(str(paths[word]) if word in paths else word for word in what.argv)
    return argv, {key: str(paths[text]) if text in paths else text for key, text in what.env.items()}


def _answers(url: str) -> bool:
    from http.client import HTTPException
    from urllib.error import URLError
    from urllib.request import ProxyHandler, build_opener

    try:
        with build_opener(ProxyHandler({})).open(url, timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError, HTTPException):
        return False


def _whole_lines(tail: IO[str]) -> list[str]:
    """Lines that have ended since the last call; a half-written one is left for the next."""
    lines: list[str] = []
    while True:
        at = tail.tell()
        line = tail.readline()
        if not line.endswith("\n"):
            tail.seek(at)
            return lines
        lines.append(line)


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def start(plan: Plan, log: Path, *, port: int | None = None, on_line: OnLine | None = None) -> Server:
    """Starts the plan's engine and waits until it serves; stops it again when it does not get there.

    The log goes to `log`. Raises EngineFailed with one line that says why it did not start.
    """
    server = Server(command(plan, port), log)
    try:
        server.wait_ready(on_line=on_line)
    except BaseException:
        server.stop()
        raise
    return server
