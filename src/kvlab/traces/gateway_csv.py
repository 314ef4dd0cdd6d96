"""CSV exports of gateways and proxies: a column holds the request as JSON, others its time and what was counted."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kvlab.core.trace import Logged, TextFormat, Unusable
from kvlab.traces import _requests
from kvlab.traces._csv import header
from kvlab.traces._lines import lines
from kvlab.traces._rows import LONGEST, TOO_LONG
from kvlab.traces._text import trace_reader

_COLUMNS = frozenset({*_requests.BODIES, "messages", "prompt"})


class _Line(NamedTuple):
    number: int
    text: str | None
    """None: it is too long."""


def _recognises(head: str) -> bool:
    return not head.lstrip().startswith(("{", "[")) and bool(_COLUMNS & header(head)) and "," in head.partition("\n")[0]


def _raw(path: Path) -> Iterator[tuple[str, object]]:
    csv.field_size_limit(LONGEST)
    names: list[str] | None = None
    source, again = _lines(path), deque[_Line]()
    while taken := _taken(source, again):
        first, where = taken[0], f"line {taken[0].number:,}"
        if first.text is None:
            yield where, Unusable(TOO_LONG)
            continue
        cells = _cells(taken)
        if names is not None and len(taken) > 1 and not _is_row(names, cells):
            # its quote is closed by that of another row: what follows its first line is read again
            again.extendleft(reversed(taken[1:]))
            cells = _cells(taken[:1])
        if cells is None:
            yield where, Unusable("no CSV")
        elif names is None:
            names = [name.strip().removeprefix("\ufeff") for name in cells]
        elif cells:
            yield where, (names, cells)


def _lines(path: Path) -> Iterator[_Line]:
    for number, line in lines(path, LONGEST):
        text = None if len(line) > LONGEST else line.decode("utf-8", "replace").replace("\0", "") + "\n"
        yield _Line(number, text)


def _taken(source: Iterator[_Line], again: deque[_Line]) -> list[_Line]:
    """The lines of the next row: more than one where a cell has line ends, the first alone where no quote ends it."""
    taken: list[_Line] = []
    quotes = size = 0
    while True:
        line = again.popleft() if again else next(source, None)
        if line is not None and line.text is None and not taken:
            return [line]
        if line is None or line.text is None or size > LONGEST:
            again.extendleft(reversed([*taken[1:], *([line] if line is not None else [])]))
            return taken[:1]
        taken.append(line)
        quotes += line.text.count('"')
        size += len(line.text)
        if quotes % 2 == 0:
            return taken


def _cells(taken: list[_Line]) -> list[str] | None:
    """None where the lines are no row of CSV."""
    try:
        return next(csv.reader([line.text or "" for line in taken]), [])
    except csv.Error:
        return None


def _is_row(names: list[str], cells: list[str] | None) -> bool:
    """Whether the cells are one for each column, with a request among them."""
    if cells is None or len(cells) != len(names):
        return False
    stated = {name: cell for name, cell in zip(names, cells, strict=True) if name in _COLUMNS and cell}
    return "prompt" in stated or any(not isinstance(_requests.parsed(cell), str) for cell in stated.values())


def _requests_of(where: str, row: object) -> list[Logged]:
    assert isinstance(row, tuple)
    names, cells = row
    if len(cells) != len(names):
        raise Unusable(f"{len(cells):,} cells for {len(names)} columns")
    record: dict[str, object] = {name: cell for name, cell in zip(names, cells, strict=True) if cell != ""}
    return _requests.requests(where, record)


READER = trace_reader("gateway CSV with requests as JSON", _recognises, TextFormat("gateway-csv", _raw, _requests_of))
