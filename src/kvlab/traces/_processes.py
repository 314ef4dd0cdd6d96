"""A large log read by several processes. Each opens the file itself, so no text passes between them: what comes back
is numbers and hashes.

They are plain subprocesses: multiprocessing would run the caller's main module once more, or fork beside threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from contextlib import suppress
from pathlib import Path

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.trace import Reading, TextFormat
from kvlab.traces._text import LARGE, Part, Share

MOST = 8
"""Processes: beyond, reading the file costs more than counting its tokens."""
_COLUMNS = ("rows", "times", "services", "inputs", "outputs", "counts", "ids")


class Task(msgspec.Struct, frozen=True):
    """What one process is told."""

    file: str
    module: str
    reading: Reading
    share: tuple[int, int]


class Done(msgspec.Struct):
    """What it answers: the columns as bytes, in the order of _COLUMNS, or the line that says why it has none."""

    columns: list[bytes] = []
    left_out: int = 0
    first: list[tuple[int, str, str]] = []
    tallies: tuple[int, int, int, int] = (0, 0, 0, 0)
    note: str | None = None
    refusal: str | None = None


def wanted(path: Path, reading: Reading) -> int:
    """Processes that a file of this size is worth."""
    usable = reading.processes or min(MOST, len(os.sched_getaffinity(0)))
    return usable if reading.processes or (path.is_file() and path.stat().st_size >= LARGE) else 1


def parts(path: Path, form: TextFormat, reading: Reading, how_many: int) -> list[Part]:
    """The shares of all processes. Raises BadInput for what any of them refuses."""
    code = "import sys; sys.path[:] = sys.argv[1].split('\\n'); from kvlab.traces._worker import main; main()"
    module = form.name.replace("-", "_")
    running = []
    for at in range(how_many):
        process = subprocess.Popen(
            [sys.executable, "-c", code, "\n".join(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )
        running.append((process, msgspec.msgpack.encode(Task(str(path), module, reading, (at, how_many)))))
    try:
        for process, task in running:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it died: what it answers says so
                process.stdin.write(task)
                process.stdin.close()
        return [_part(path, process) for process, _ in running]
    finally:
        for process, _ in running:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _part(path: Path, process: subprocess.Popen[bytes]) -> Part:
    assert process.stdout is not None
    content = process.stdout.read()
    try:
        done = msgspec.msgpack.decode(content, type=Done)
    except msgspec.DecodeError:
        raise BadInput(f"a process that read {path} died (out of memory?); give a part of the file") from None
    if done.refusal is not None:
        raise BadInput(done.refusal)
    part = Part(left_out=done.left_out, first=done.first)
    for name, column in zip(_COLUMNS, done.columns, strict=True):
        getattr(part, name).frombytes(column)
    part.note = done.note
    part.uncounted, part.textless, part.estimated, part.disagree = done.tallies
    return part


def answered(part: Part) -> Done:
    """The part as it is sent."""
    columns = [array(getattr(part, name).typecode, getattr(part, name)).tobytes() for name in _COLUMNS]
    tallies = (part.uncounted, part.textless, part.estimated, part.disagree)
    return Done(columns, part.left_out, part.first, tallies, part.note)


def run(task: Task) -> Done:
    """One process's work."""
    from kvlab.core.errors import KvlabError
    from kvlab.traces._text import format_of, part_of
    from kvlab.traces._tokens import encoder

    form = format_of(task.module)
    try:
        found = part_of(Path(task.file), form, task.reading, encoder(task.reading), Share(*task.share))
    except KvlabError as refusal:
        return Done(refusal=str(refusal))
    return answered(found)
