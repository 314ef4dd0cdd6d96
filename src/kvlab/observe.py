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
from kvlab.logs.order import Order, intact
from kvlab.logs.scan import Line, Scan
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
    """The reader is given the lines that may matter to it, of one start after another; the last start counts."""
    lines = _Lines(reader, stated, pieces)
    while True:
        first, read = lines.starts_seen == 0, reader.read(lines.of_start())
        observation = lines.settings.added(read)  # those of the start that was just read
        if first and not lines.ended:
            lines.headless = any(item.name.startswith(reader.gathered) for item in read.seen)
        if lines.ended:
            break
    seen = [_renumbered(item, lines.numbers) for item in observation.seen]
    return msgspec.structs.replace(observation, seen=tuple(lines.believed(seen, reader)))


class _Lines:
    """The lines that may matter to a reader, start by start."""

    def __init__(self, reader: LogReader, stated: StatedArgs, pieces: Iterable[bytes]) -> None:
        self.ended = False
        self.starts_seen = 0
        """First lines of a start."""
        self.headless = False
        """Before the first of them stands what comes after one: the log begins in a start, or is out of order."""
        self.numbers = array("Q")
        """The number in the file of each line of the start that was given last."""
        self.settings, self._order = Listener(stated), Order()
        self._stated, self._starts = stated, reader.starts
        self._damage: int | None = None
        """The first line of the first block that is not whole."""
        starts = () if reader.starts is None else (reader.starts,)
        patterns = (*(said.pattern for said in reader.said), *reader.also, *stated.patterns, *starts)
        self._scan = Scan((pattern, None) for pattern in patterns)
        self._lines = self._of(pieces)
        self._first: Line[None] | None = None
        self._last = 0
        """The number of the last whole line that was given."""

    def _of(self, pieces: Iterable[bytes]) -> Iterator[Line[None]]:
        for block in pieces:
            if self._damage is None and not intact(block):
                self._damage = self._scan.lines + 1
            yield from self._scan.feed(block)

    def of_start(self) -> Iterator[str]:
        """The lines of the next start."""
        self.numbers, self.settings, self._order = array("Q"), Listener(self._stated), Order()
        first, self._first = self._first, None
        for line in self._lines if first is None else chain((first,), self._lines):
            if line is not first and self._starts is not None and self._starts.search(line.text):
                self._first, self.starts_seen = line, self.starts_seen + 1
                return
            if not damaged(line.text):
                self.numbers.append(line.number)
                self._order.look(line.text)
                self.settings.look(line.text, line.number)
                if line.whole:
                    self._last = line.number
                yield line.text + "\n" if line.whole else line.text
        self.ended = True

    def believed(self, seen: list[Seen], reader: LogReader) -> Iterator[Seen]:
        """`seen` without what was gathered of several lines of which some may be lost, or are out of order."""
        gathered = [item for item in seen if item.name.startswith(reader.gathered)]
        last = max((item.line_number or 0 for item in gathered), default=0)
        if self.headless or self._order.lost or (self._damage is not None and self._damage <= last):
            doubted = gathered
        elif self._scan.cut:  # more that belongs to the last statement may have followed
            doubted = [item for item in gathered if (item.line_number or 0) >= self._last]
        else:
            of_more = [item for item in gathered if item.name.startswith(reader.continued)]
            doubted = [item for item in of_more if item.line_number == self._scan.lines]
        return (item for item in seen if item not in doubted)


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
