"""A real vLLM for the tests: started on a free port of loopback, ended with all that it started."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import psutil

from kvlab.ports import free_port


@contextmanager
def running(flags: Sequence[str], folder: Path) -> Iterator[str]:
    """The address of a vLLM with these flags once it serves; its log is in `folder`."""
    made, port = Path(os.environ["KVLAB_VLLM"]), free_port()
    argv = [str(made / "venv" / "bin" / "vllm"), "serve", str(made / "model"), "--port", str(port), *flags]
    env = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1"}
    with (folder / "engine.log").open("wb") as log:
        process = subprocess.Popen([*argv, "--host", "127.0.0.1"], stdout=log, stderr=log, env=env)
    address = f"http://127.0.0.1:{port}"
    try:
        _ready(address, process, Path(log.name))
        yield address
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.terminate()
        process.wait(timeout=60)
        for child in psutil.wait_procs(children, timeout=10)[1]:
            child.kill()


def _ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        try:
            with urlopen(f"{address}/health", timeout=5):
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(log.read_text(errors="replace")[-3000:])
