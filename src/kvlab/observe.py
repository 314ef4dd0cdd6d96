"""Reading an engine's log: which engine wrote it, and what it states."""

from __future__ import annotations

import itertools
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

from kvlab import engines
from kvlab.core.errors import BadInput
from kvlab.core.observation import Observation

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LOOK_LINES = 2000
"""Lines among which the first recognisable one must stand."""
_LONGEST_LINE = 1 << 14
"""Characters read of a line at once: a log of one endless line is read in pieces, not into memory."""


def read_log(path: str, engine: str | None = None) -> Observation:
    """What the log at `path` ("-": standard input) states.

    Raises BadInput when there is no such file, it is empty, or no line comes from an engine that kvlab knows.
    """
    with _opened(path) as file:
        lines: Iterator[str] = (_ANSI.sub("", line) for line in iter(lambda: file.readline(_LONGEST_LINE), ""))
        if engine is None:
            engine, lines = _recognise(lines, path)
        else:
            first = next(lines, None)
            if first is None:
                raise _empty(path)
            lines = itertools.chain((first,), lines)
        return engines.log_reader(engine).read(lines)


@contextmanager
def _opened(path: str) -> Iterator[IO[str]]:
    if path == "-":
        yield sys.stdin
        return
    if os.path.exists(path) and stat.S_ISCHR(os.stat(path).st_mode):
        raise BadInput(f"{path} is a device, not a log; give a log file, or - for standard input")
    try:
        file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115
    except FileNotFoundError:
        raise BadInput(f"no log at {path}; check the path, or give - to read standard input") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a folder; name the log file in it") from None
    with file:
        yield file


def _recognise(lines: Iterator[str], path: str) -> tuple[str, Iterator[str]]:
    head = list(itertools.islice(lines, _LOOK_LINES))
    if not head:
        raise _empty(path)
    for line in head:
        for name in engines.names():
            if engines.log_reader(name).recognises(line):
                return name, _chained(head, lines)
    known = ", ".join(engines.names())
    raise BadInput(f"no line of {path} comes from an engine that kvlab knows ({known}); name it with --engine")


def _empty(path: str) -> BadInput:
    return BadInput(f"{path} is empty; start the engine with its output going to this file")


def _chained(head: Iterable[str], rest: Iterator[str]) -> Iterator[str]:
    return itertools.chain(head, rest)
