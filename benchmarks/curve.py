"""The exact LRU curve of a trace against kvcache-simulator's 13 points, as whole processes in one run.

    python benchmarks/curve.py [--folder DIR]

The peer is kvcache-simulator 0.1.3 from PyPI (a C++ core), installed into an environment of its own below DIR. Both
read the same file: Mooncake's conversation trace as it is, and cut into blocks of 16 tokens. CPU seconds are those of
the process and its children. With --sessions FILE, a file of agent sessions as ranges of block ids is measured as well.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PEER = "kvcache-simulator==0.1.3"
TRACE = Path(__file__).parents[1] / "tests" / "golden" / "traces" / "mooncake_conversation_trace.jsonl.gz"


def measured(argv: list[str]) -> tuple[float, int, str]:
    """CPU seconds of a command and its children, the peak memory of the largest in bytes, and what it printed."""
    code = (
        "import json, resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, done.returncode, done.stdout,"
        " done.stderr[-2000:]]))"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    seconds, memory, status, said, errors = json.loads(done.stdout)
    if status:
        raise SystemExit(f"{argv[0]} failed: {errors}")
    return seconds, memory, said


def peer(folder: Path) -> Path:
    """The peer's command, installed when it is not there."""
    command = folder / "peer" / "bin" / "kvcache-simulator"
    if not command.exists():
        venv.create(folder / "peer", with_pip=True)
        subprocess.run([folder / "peer" / "bin" / "pip", "install", "-q", PEER], check=True)
    return command


def in_blocks_of_16(folder: Path) -> Path:
    """The conversation trace with full blocks of 16 tokens: block j of id x becomes 32 x + j."""
    path = folder / "conversation_16.jsonl"
    if not path.exists():
        with gzip.open(TRACE, "rt") as rows, path.open("w") as out:
            for line in rows:
                row = json.loads(line)
                full = row["input_length"] // 16
                row["hash_ids"] = [32 * x + j for x in row["hash_ids"] for j in range(32)][:full]
                row["block_size"] = 16
                out.write(json.dumps(row) + "\n")
    return path


def with_size(folder: Path, size: int) -> Path:
    """The trace plain, with its block size in every row, as the peer wants it."""
    path = folder / f"conversation_{size}.jsonl"
    with gzip.open(TRACE, "rt") as rows, path.open("w") as out:
        for line in rows:
            out.write(json.dumps({**json.loads(line), "block_size": size}) + "\n")
    return path


def row(name: str, ours: tuple[float, int, str], theirs: tuple[float, int, str] | None) -> None:
    found = json.loads(ours[2])["reuse"]
    text = f"{name:24} kvlab {ours[0]:7.2f} CPU s {ours[1] / 2**20:6.0f} MiB, {found['blocks']:,} references"
    if theirs is not None:
        text += f"; peer {theirs[0]:7.2f} CPU s {theirs[1] / 2**20:6.0f} MiB; ratio {ours[0] / theirs[0]:.3f}"
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the peer and the traces are kept (default: a temporary one)")
    parser.add_argument("--sessions", type=Path, help="agent sessions as ranges of block ids")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        theirs = [
            str(peer(folder)),
            "run",
            "--model",
            "qwen3-8b",
            "--policies",
            "lru",
            "--no-progress",
            "--format",
            "json",
        ]
        ours = [sys.executable, "-m", "kvlab", "traffic", "--json"]
        measured([*ours, str(TRACE)])  # numba's compiler runs once, and its result is kept
        for name, path in (("blocks of 512", with_size(folder, 512)), ("blocks of 16", in_blocks_of_16(folder))):
            row(name, measured([*ours, str(path)]), measured([*theirs, "--trace", str(path)]))
        if options.sessions:
            row("agent sessions", measured([*ours, str(options.sessions)]), None)


if __name__ == "__main__":
    main()
