"""Programs that a model wrote, run where they can read nothing of the user, change nothing, and reach nobody.

`_inside.py` says what is taken from them, and how. Here: a process group of its own, an empty environment, an empty
temporary folder to start in, a limit of time, bounded output, and the end of it all as a group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

import msgspec

from kvlab.sandbox._inside import NOT_ISOLATED

CPU_SECONDS = 1
WALL_SECONDS = 10.0
"""Of a program that sleeps, or waits for a processor: long, so that a busy machine decides nothing."""
MEMORY_BYTES = 512 << 20
OUTPUT_BYTES = 64 << 10
_INSIDE = Path(__file__).with_name("_inside.py")
_TOO_LONG = (-signal.SIGXCPU, -signal.SIGKILL)


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended. `output` is what it wrote before; `why` the last line of its error, or what stopped it.

    "refused": it was not run, because this system did not isolate it when it was to begin.
    """

    end: Literal["done", "error", "time", "refused"]
    output: str
    why: str = ""


class Sandbox:
    """Runs programs one at a time. `weaker`: also where this system cannot isolate them; the user must have said so."""

    def __init__(self, *, weaker: bool = False) -> None:
        self._weaker = weaker
        self.missing = _missing()
        """What this system lacks of the isolation, in words; empty when it has all."""

    @property
    def refusal(self) -> str | None:
        """Why programs are not run here; None when they are."""
        return f"this system cannot isolate a program ({self.missing})" if self.missing and not self._weaker else None

    def run(self, program: str) -> Ran:
        """Runs a Python program to its end, or to a limit's. Raises RuntimeError when there is a refusal."""
        if (refusal := self.refusal) is not None:
            raise RuntimeError(refusal)
        with tempfile.TemporaryDirectory(prefix="kvlab-answer-") as folder:
            path = Path(folder) / "answer.py"
            path.write_text(program, encoding="utf-8", errors="replace")
            return _run(str(path), Path(folder), weaker=self._weaker)


def _missing() -> str:
    with tempfile.TemporaryDirectory(prefix="kvlab-answer-") as folder:
        ran = _run("-", Path(folder), weaker=False)
    return ran.output if ran.end == "done" else f"it does not start: {ran.why or ran.end}"


def _run(path: str, folder: Path, *, weaker: bool) -> Ran:
    limits = f"{CPU_SECONDS},{MEMORY_BYTES},{OUTPUT_BYTES}"
    argv = (sys.executable, "-I", "-S", "-B", str(_INSIDE), path, str(os.getpid()), limits, str(int(weaker)))
    # Files, not pipes: the limit of a file's size bounds the output, and nobody waits for a reader.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder, env={}, start_new_session=True
        )
        late = False
        try:
            process.wait(timeout=WALL_SECONDS)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            with suppress(ProcessLookupError, PermissionError):  # all of the group has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output, said = _text(out), _text(err).strip()
    if late:
        return Ran(end="time", output=output, why=f"it ran for {WALL_SECONDS:.0f} s")
    if process.returncode == NOT_ISOLATED:
        return Ran(end="refused", output=output, why="this system did not isolate it")
    if process.returncode in _TOO_LONG:
        return Ran(end="time", output=output, why=f"it took {CPU_SECONDS} s of processor time")
    if process.returncode:
        return Ran(end="error", output=output, why=said.splitlines()[-1][:200] if said else "it wrote no reason")
    return Ran(end="done", output=output)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(OUTPUT_BYTES).decode("utf-8", "replace")
