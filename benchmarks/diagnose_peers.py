"""inferpilot, vllm-doctor and kvlab on the same scrapes of vLLM, in one run: python benchmarks/diagnose_peers.py.

The loads are those of tests/diagnose/vllm_pages.py (a real vLLM 0.32's page with other numbers in it, 30 s apart) and
two scrapes of a real run. inferpilot reads both files; vllm-doctor reads the later one from a server on loopback, as it
takes addresses only. Each peer is installed from PyPI into an environment of its own that is removed afterwards.
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "diagnose"))
import vllm_pages

import kvlab

ROOT = Path(__file__).parents[1]
PEERS = {"inferpilot": "inferpilot==0.1.0", "vllm-doctor": "vllm-doctor==0.6.0"}
SECONDS, INSTALL_SECONDS = 60, 300
_CODE = re.compile(r"\x1b\[[0-9;]*m")


class Load(NamedTuple):
    """Two pages, the seconds between them, and what a person says of them."""

    name: str
    pages: tuple[str, str]
    seconds: float
    verdict: str


def loads() -> list[Load]:
    """The series, in the order of the table."""
    saved = ROOT / "tests" / "golden" / "metrics"
    packed = [(saved / f"vllm_0.32_2_capacity_t{at}.prom.gz").read_bytes() for at in ("00", "17")]
    real = [gzip.decompress(page).decode() for page in packed]
    return [
        Load("pool 99 %, 42 run, 19 wait, 0.6 preemptions/s", vllm_pages.capacity(), 30, "capacity_bound"),
        Load("real vLLM: 12 run, then 8 and 3 wait, counter at 0", (real[0], real[1]), 204, "capacity_bound"),
        Load("30,000 prompt tokens/s at 5 % hits, TTFT p95 2.6 s", vllm_pages.prefix(), 30, "prefix_recompute_bound"),
        Load("96 run, none wait, token p95 70 ms", vllm_pages.bandwidth(), 30, "bandwidth_bound"),
        Load("12 run, none wait, token p95 20 ms", vllm_pages.healthy(), 30, "healthy"),
    ]


@contextmanager
def serving(page: str) -> Iterator[str]:
    """A server on loopback whose /metrics is the page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()


def installed(folder: Path, name: str) -> Path:
    """The peer's program in a new environment."""
    venv.create(folder / name, with_pip=True)
    programs = folder / name / "bin"
    pip = [str(programs / "pip"), "-q", "--disable-pip-version-check", "install", PEERS[name]]
    subprocess.run(pip, check=True, timeout=INSTALL_SECONDS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return programs / name


def asked(argv: list[str], folder: Path) -> str:
    """What a program prints, without colours and empty lines."""
    env = {**os.environ, "NO_COLOR": "1", "HOME": str(folder), "COLUMNS": "160"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, env=env, cwd=folder)
    text = _CODE.sub("", done.stdout + done.stderr)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def main() -> None:
    """Prints, for each load, what each tool says."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        programs = {name: installed(folder, name) for name in PEERS}
        for load in loads():
            files = [folder / "first.prom", folder / "last.prom"]
            for file, page in zip(files, load.pages, strict=True):
                file.write_text(page)
            found = kvlab.diagnose(*files, seconds=load.seconds)
            pilot = asked([str(programs["inferpilot"]), "inspect", *map(str, files), "--plain"], folder)
            with serving(load.pages[1]) as url:
                doctor = asked([str(programs["vllm-doctor"]), "diagnose", url], folder)
            print(f"== {load.name}\nexpected     {load.verdict}\nkvlab        {found.verdict} ({found.confidence})")
            print(f"inferpilot   {pilot.splitlines()[2]}")
            health = re.search(r"Health: (\w+)", doctor)
            boxes = re.findall(r"╭─ \S+ ([\w ]+?)  \[", doctor)
            print(f"vllm-doctor  {health.group(1) if health else 'no answer'}: {', '.join(boxes) or 'nothing'}")


if __name__ == "__main__":
    main()
