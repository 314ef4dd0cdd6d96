"""Reading an engine's log: which engine wrote it, and what it states."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from kvlab import engines
from kvlab.core.engine import LogReader
from kvlab.core.errors import BadInput
from kvlab.core.observation import Observation, Seen
from kvlab.core.stated import Listener, StatedArgs
from kvlab.logs.scan import Scan
from kvlab.logs.source import blocks, opened
from kvlab.logs.text import damaged
from kvlab.logs.writer import recognised, writers


def read_log(path: str, engine: str | None = None) -> Observation:
    """What the log at `path` ("-": standard input) states, read in one pass and in bounded memory.

    Raises BadInput when there is no such file, it is no regular file or empty, no line comes from an engine that kvlab
    knows, or the lines come from another engine than the named one.
    """
    with opened(path) as file:
        pieces = blocks(file, path)
        head = next(pieces, b"")
        if not head:
            raise BadInput(f"{path} is empty; start the engine with its output going to this file")
        name = _recognised(head, path) if engine is None else engine
        if engine is not None:
            _check_engine(head, path, engine)
        return _read(engines.log_reader(name), engines.stated_args(name), chain((head,), pieces))


def _read(reader: LogReader, stated: StatedArgs, pieces: Iterable[bytes]) -> Observation:
    """The reader is given the lines that may matter to it, and what it read the numbers that they have in the file."""
    patterns = (*(said.pattern for said in reader.said), *reader.also, *stated.patterns)
    scan, settings = Scan((pattern, None) for pattern in patterns), Listener(stated)
    numbers = array("Q")

    def lines() -> Iterator[str]:
        for block in pieces:
            for line in scan.feed(block):
                if not damaged(line.text):
                    numbers.append(line.number)
                    settings.look(line.text, line.number)
                    yield line.text + "\n" if line.whole else line.text

    observation = reader.read(lines())
    seen = (_renumbered(item, numbers) for item in observation.seen)
    return settings.added(msgspec.structs.replace(observation, seen=tuple(seen)))


def _renumbered(item: Seen, numbers: array[int]) -> Seen:
    number = item.line_number
    return item if number is None else msgspec.structs.replace(item, line_number=numbers[number - 1])


def _recognised(head: bytes, path: str) -> str:
    found = recognised(head)
    if found is None:
        known = ", ".join(engines.names())
        raise BadInput(f"no line of {path} comes from an engine that kvlab knows ({known}); name it with --engine")
    return found


def _check_engine(head: bytes, path: str, engine: str) -> None:
    """A log in which nothing but the lines of another engine is known would leave every planned number "not seen"."""
    found = writers(head)
    if found and engine not in found:
        raise BadInput(
            f"{path} is a log of {' or '.join(found)}, not of {engine}; check it against a plan for that engine, or"
            " give the log of the planned one"
        )
