"""Reading an engine's log: which engine wrote it, and what it states."""

from __future__ import annotations

import io
import itertools
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from kvlab import engines, store
from kvlab.core.errors import BadInput
from kvlab.core.observation import Observation

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LOOK_LINES = 2000
"""Lines among which the first recognisable one must stand."""
_LONGEST_LINE = 1 << 14
"""Characters read of a line at once: a log of one endless line is read in pieces, not into memory."""


def read_log(path: str, engine: str | None = None) -> Observation:
    """What the log at `path` ("-": standard input) states.

    Raises BadInput when there is no such file, it is no regular file or empty, no line comes from an engine that kvlab
    knows, or the lines come from another engine than the named one.
    """
    with _opened(path) as file:
        lines: Iterator[str] = (_ANSI.sub("", line) for line in iter(lambda: file.readline(_LONGEST_LINE), ""))
        head = list(itertools.islice(lines, _LOOK_LINES))
        if not head:
            raise BadInput(f"{path} is empty; start the engine with its output going to this file")
        name = _recognised(head, path) if engine is None else engine
        if engine is not None:
            _check_engine(head, path, engine)
        return engines.log_reader(name).read(itertools.chain(head, lines))


@contextmanager
def _opened(path: str) -> Iterator[IO[str]]:
    if path == "-":
        if sys.stdin is None:
            raise BadInput("standard input is closed; pipe the log into it, or give a log file")
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        yield sys.stdin
        return
    with os.fdopen(store.open_regular(path, "log"), encoding="utf-8", errors="replace") as file:
        yield file


def _recognised(head: list[str], path: str) -> str:
    found = next((name for line in head for name in engines.names() if engines.log_reader(name).recognises(line)), None)
    if found is None:
        known = ", ".join(engines.names())
        raise BadInput(f"no line of {path} comes from an engine that kvlab knows ({known}); name it with --engine")
    return found


def _check_engine(head: list[str], path: str, engine: str) -> None:
    """A log in which nothing but the lines of another engine is known would leave every planned number "not seen"."""
    if any(engines.log_reader(engine).recognises(line) for line in head):
        return
    others = [name for name in engines.names() if any(engines.log_reader(name).recognises(line) for line in head)]
    if others:
        raise BadInput(
            f"{path} is a log of {' or '.join(others)}, not of {engine}; check it against a plan for that engine, or"
            " give the log of the planned one"
        )
