"""Time and memory of `kvlab explain` on a log of 1 GB: python benchmarks/explain_large.py [GIGABYTES].

The log repeats lines of real servers (access lines, statistics of vLLM and SGLang) and ends with one real refusal,
which must be found with its line number. Prints lines, seconds and the peak of the process's memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
END = (GOLDEN / "logs" / "context_larger_than_pool.vllm.log").read_bytes()
MOST_BYTES = 200e6


def _body() -> bytes:
    """Some hundred lines of servers at work, in which nothing is wrong."""
    names = ("vllm_idle", "vllm_busy", "sglang_serving", "vllm_0.10_gpu")
    logs = [(GOLDEN / "logs" / "healthy" / f"{name}.log").read_bytes() for name in names]
    access = b'INFO:     10.109.20.86:59146 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n' * 40
    return b"".join(log + access for log in logs)


def main() -> None:
    """Writes the log, explains it in a process of its own, prints the figures."""
    size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    body = _body()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "engine.log"
        times = round(size * 1e9 / len(body))
        with log.open("wb") as file:
            for _ in range(times):
                file.write(body)
            file.write(END)
        began = time.monotonic()
        done = subprocess.run(
            (sys.executable, "-m", "kvlab", "explain", str(log), "--json"), capture_output=True, check=True
        )
        took = time.monotonic() - began
        bytes_read = log.stat().st_size
    document = json.loads(done.stdout)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    (finding,) = document["findings"]
    assert finding["code"] == "context_larger_than_pool"
    assert finding["line_number"] == times * body.count(b"\n") + 1
    print(f"{bytes_read / 1e9:.2f} GB, {document['lines']:,} lines: {took:.1f} s, peak {peak / 1e6:.0f} MB")
    assert peak < MOST_BYTES, "more memory than promised"


if __name__ == "__main__":
    main()
