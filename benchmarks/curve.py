"""The exact LRU curve of a trace against kvcache-simulator's 13 points, as whole processes in one run.

    python benchmarks/curve.py [--folder DIR]

The peer is kvcache-simulator 0.1.3 from PyPI (a C++ core), installed into an environment of its own below DIR. Both
read the same file: Mooncake's conversation trace as it is, and cut into blocks of 16 tokens. CPU seconds are those of
the process and its children. With --sessions FILE, a file of agent sessions as ranges of block ids is measured as well.

Then each trace once more from a sample of its blocks (`--sample 1%`, SHARDS), against the exact curve: the largest
difference over the sample's points, what the sample says of its own error, CPU seconds and memory of whole processes,
and CPU seconds of the curve alone and of reading alone, in one process. --samples alone leaves the peer out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from kvlab import traces
from kvlab.core.trace import Reading
from kvlab.core.traffic import Reuse
from kvlab.workload.reuse import Window, reuse

PEER = "kvcache-simulator==0.1.3"
SHORT_RUNS = 5
"""Of a trace that takes less than a second, one after the other in turn: the median counts."""
OURS = [sys.executable, "-m", "kvlab", "traffic", "--json"]
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


def reused(path: Path, reading: Reading, capacities: tuple[int, ...]) -> tuple[Reuse, float, float]:
    """What the trace reuses; CPU seconds of reading it, and of the curve."""
    begin = time.process_time()
    trace = traces.read(path, None, reading)
    assert trace.blocks is not None
    read = time.process_time()
    found = reuse(trace.blocks, Window(0, trace.inputs), capacities, None)
    return found, read - begin, time.process_time() - read


def sample(name: str, path: Path, share: str) -> None:
    """Prints how far a sample's curve is from the exact one, and what each costs."""
    sampled, _, _ = reused(path, traces.reading(None, False, 16, share), ())
    exact, *slow = reused(path, traces.reading(None, False, 16), tuple(one.capacity_blocks for one in sampled.curve))
    sampled, *fast = reused(path, traces.reading(None, False, 16, share), ())
    rates = {point.capacity_blocks: point.hit_rate for point in exact.curve}
    off = [abs(point.hit_rate - rates[point.capacity_blocks]) for point in sampled.curve]
    within = sum(error <= (point.error or 0.0) for error, point in zip(off, sampled.curve, strict=True))
    assert sampled.sampled is not None
    print(
        f"{name:24} {share} of {exact.blocks:,} references: {sampled.sampled.references:,} references,"
        f" {sampled.sampled.blocks:,} blocks; off by {100 * max(off):.2f} points at most,"
        f" {100 * sum(off) / len(off):.2f} on average (stated: {100 * sampled.sampled.error:.2f} at most,"
        f" {within} of {len(off)} points within theirs)"
    )
    whole = [measured([*OURS, "--sample", of, str(path)]) for of in (share, "100%")]
    memory = " against ".join(f"{one[1] / 2**20:.0f}" for one in whole)
    print(
        f"{'':24} curve {fast[1]:.3f} against {slow[1]:.3f} CPU s, ratio {fast[1] / slow[1]:.3f};"
        f" reading {fast[0]:.2f} against {slow[0]:.2f}; with both {sum(fast) / sum(slow):.3f};"
        f" whole process {whole[0][0]:.2f} against {whole[1][0]:.2f}, {memory} MiB",
        flush=True,
    )


def against_peer(folder: Path) -> None:
    """The two conversation traces, ours and the peer's."""
    theirs = [str(peer(folder)), "run", "--model", "qwen3-8b", "--policies", "lru", "--no-progress", "--format", "json"]
    measured([*theirs, "--trace", str(with_size(folder, 512))])  # its modules are compiled once too
    rows = (("blocks of 512", with_size(folder, 512), SHORT_RUNS), ("blocks of 16", in_blocks_of_16(folder), 1))
    for name, path, times in rows:
        runs = [(measured([*OURS, str(path)]), measured([*theirs, "--trace", str(path)])) for _ in range(times)]
        ours, others = ([*sorted(side)] for side in zip(*runs, strict=True))
        row(name, ours[times // 2], others[times // 2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the peer and the traces are kept (default: a temporary one)")
    parser.add_argument("--sessions", type=Path, help="agent sessions as ranges of block ids")
    parser.add_argument("--samples", action="store_true", help="measure samples alone (default: the peer first)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for path in (TRACE, in_blocks_of_16(folder)):  # numba's compiler runs once, and its result is kept
            measured([*OURS, str(path)])
        if not options.samples:
            against_peer(folder)
            if options.sessions:
                row("agent sessions", measured([*OURS, str(options.sessions)]), None)
        sample("blocks of 512", TRACE, "1%")
        sample("blocks of 512", TRACE, "10%")
        sample("blocks of 16", in_blocks_of_16(folder), "1%")
        if options.sessions:
            sample("agent sessions", options.sessions, "1%")


if __name__ == "__main__":
    main()
