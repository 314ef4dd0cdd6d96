"""Serves one model with Ollama: `python -m kvlab.engines.ollama.serving OLLAMA SCRIPT MODELFILE MODEL`.

The words after OLLAMA are those of the plan's own script, which this stands for where the user works: it takes the
model out of the store again. The model is made from the Modelfile on a port of its own first, then the server starts on
OLLAMA_HOST and loads it; the model gets its name only once it is loaded, so that a server which lists the name serves
it. At the end the server is gone, so one more is started to remove the model.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

MODEL = "kvlab"
_LOADING = f"{MODEL}-loading"
_POLL_SECONDS = 0.1
_START_SECONDS = 60.0
_LOAD_SECONDS = 900.0


def main(argv: Sequence[str]) -> int:
    """Runs until the server ends; returns its exit code, or that of the step that failed."""
    ollama, _, modelfile, _ = argv
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with _serving(ollama, _elsewhere()) as (_, run):
        run("rm", MODEL)  # of an earlier start that was killed
        made = run("create", _LOADING, "-f", modelfile)
    if made != 0:
        return made
    try:
        with _serving(ollama, os.environ["OLLAMA_HOST"]) as (server, run):
            _load(os.environ["OLLAMA_HOST"])
            named = run("cp", _LOADING, MODEL)
            return server.wait() if named == 0 else named
    finally:
        with _serving(ollama, _elsewhere()) as (_, run):
            run("rm", MODEL)
            run("rm", _LOADING)


class _Run:
    """`ollama WORDS` against one server; its exit code."""

    def __init__(self, ollama: str, host: str) -> None:
        self.ollama, self.env = ollama, {**os.environ, "OLLAMA_HOST": host}

    def __call__(self, *words: str) -> int:
        quiet = subprocess.DEVNULL if words[0] == "rm" else None
        return subprocess.run((self.ollama, *words), env=self.env, stdout=quiet, stderr=quiet, check=False).returncode


@contextmanager
def _serving(ollama: str, host: str) -> Iterator[tuple[subprocess.Popen[bytes], _Run]]:
    """A server on `host` that answers. Raises SystemExit when it ends first."""
    run = _Run(ollama, host)
    server = subprocess.Popen((ollama, "serve"), env=run.env)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(host):
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(server.poll() or 1)
            time.sleep(_POLL_SECONDS)
        yield server, run
    finally:
        server.terminate()
        server.wait()


def _answers(host: str) -> bool:
    return _ask(f"http://{host}/", None, 2.0)


def _load(host: str) -> None:
    """Loads the model with an empty prompt. Raises SystemExit when it does not load: the server's log says why."""
    body = b'{"model": "%s", "stream": false}' % _LOADING.encode()
    if not _ask(f"http://{host}/api/generate", body, _LOAD_SECONDS):
        raise SystemExit(1)


def _ask(url: str, body: bytes | None, seconds: float) -> bool:
    from http.client import HTTPException
    from urllib.error import URLError
    from urllib.request import ProxyHandler, Request, build_opener

    try:
        with build_opener(ProxyHandler({})).open(Request(url, data=body), timeout=seconds) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError, HTTPException):
        return False


def _elsewhere() -> str:
    """A loopback address that nobody listens on at this moment."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
