"""Time and memory of `kvlab check` and `explain` on a log of 1 GB: python benchmarks/explain_large.py [GIGABYTES].

The log is a real start of vLLM, then lines of real servers (access lines, statistics of vLLM and SGLang), and ends with
one real refusal; the pool and the refusal must be found with their line numbers. A second log is one endless line.
Prints lines, seconds, the peak of each process's memory, and the seconds of GNU grep -c for the literals that kvlab's
patterns need, as its fixed strings (-F), on the same file in the same run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from kvlab import engines
from kvlab.core.needles import needles
from kvlab.symptoms import _watches

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
START = (GOLDEN / "vllm" / "logs" / "0.32.0_cpu_auto.log").read_bytes()
END = (GOLDEN / "logs" / "context_larger_than_pool.vllm.log").read_bytes()
MOST_BYTES = 200e6


class Run(NamedTuple):
    """One process: what it wrote, how long it took, how long it computed, and its peak of memory in bytes."""

    said: bytes
    seconds: float
    cpu_seconds: float
    peak: float


def run(*argv: str | Path) -> Run:
    """Runs a process, of which the figures are those of no other."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(argv, stdout=out, env={**os.environ, "LC_ALL": "C"})
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - began
        out.seek(0)
        said = out.read()
    if child.returncode > 1:  # grep says 1 when nothing was found
        raise SystemExit(f"{argv[:4]} ended with {child.returncode}")
    return Run(said, took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def kvlab(*words: str | Path) -> Run:
    """Runs kvlab."""
    return run(sys.executable, "-m", "kvlab", *words, "--json")


def grep(patterns: list[re.Pattern[str]], log: Path, folder: Path) -> Run:
    """Runs grep -c for the literals of the patterns."""
    literals = {literal for pattern in patterns for literal in needles(pattern) or ()}
    (folder / "literals").write_text("\n".join(sorted(literals)) + "\n")
    return run("grep", "-c", "-a", "-F", "-f", folder / "literals", log)


def busy() -> bytes:
    """Some hundred lines of servers at work, in which nothing is wrong."""
    names = ("vllm_idle", "vllm_busy", "sglang_serving")
    logs = [(GOLDEN / "logs" / "healthy" / f"{name}.log").read_bytes() for name in names]
    access = b'INFO:     10.109.20.86:59146 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n' * 40
    return b"".join(log + access for log in logs)


def report(what: str, done: Run, peer: Run) -> None:
    """Prints one line, and refuses more memory than promised."""
    print(
        f"{what:26} {done.seconds:5.1f} s ({done.cpu_seconds:.1f} s of CPU), peak {done.peak / 1e6:.0f} MB; grep -c"
        f" {peer.seconds:.1f} s ({peer.cpu_seconds:.1f} s): {done.cpu_seconds / peer.cpu_seconds:.1f} x its CPU time"
    )
    assert done.peak < MOST_BYTES, "more memory than promised"


def main() -> None:
    """Writes the logs, reads each in a process of its own, prints the figures."""
    size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    body = busy()
    said = engines.log_reader("vllm")
    numbers = [*(item.pattern for item in said.said), *said.also]
    symptoms = [watch.pattern for watch in _watches()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, endless = folder / "engine.log", folder / "endless.log"
        times = round(size * 1e9 / len(body))
        with log.open("wb") as file:
            file.write(START)
            for _ in range(times):
                file.write(body)
            file.write(END)
        before = START.count(b"\n") + times * body.count(b"\n")
        checked, explained = kvlab("check", log), kvlab("explain", log)
        pool = next(row for row in json.loads(checked.said)["rows"] if row["name"] == "kv_tokens")
        assert pool["seen"] == 55_356
        document = json.loads(explained.said)
        finding = document["findings"][0]
        assert (finding["code"], finding["line_number"]) == ("context_larger_than_pool", before + 1)
        print(f"{log.stat().st_size / 1e9:.2f} GB, {document['lines']:,} lines")
        report("check", checked, grep(numbers, log, folder))
        report("explain", explained, grep(symptoms, log, folder))
        log.unlink()
        line = END.split(b"\n")[0]
        with endless.open("wb") as file:
            for _ in range(round(size * 1e3)):
                file.write(b"x " * 499_000 + line)
        print(f"{endless.stat().st_size / 1e9:.2f} GB, one line")
        report("check --engine vllm", kvlab("check", endless, "--engine", "vllm"), grep(numbers, endless, folder))
        report("explain", kvlab("explain", endless), grep(symptoms, endless, folder))


if __name__ == "__main__":
    main()
