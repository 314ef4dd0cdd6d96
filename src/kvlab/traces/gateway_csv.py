"""CSV exports of gateways and proxies: a column holds the request as JSON, others its time and what was counted."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from kvlab.core.trace import Logged, TextFormat, Unusable
from kvlab.traces import _requests
from kvlab.traces._csv import header
from kvlab.traces._lines import lines
from kvlab.traces._rows import LONGEST, TOO_LONG
from kvlab.traces._text import trace_reader

_CUT = "\0"
_COLUMNS = frozenset({*_requests.BODIES, "messages", "prompt"})


def _recognises(head: str) -> bool:
    return not head.lstrip().startswith(("{", "[")) and bool(_COLUMNS & header(head)) and "," in head.partition("\n")[0]


def _raw(path: Path) -> Iterator[tuple[str, object]]:
    csv.field_size_limit(LONGEST)
    reader = csv.reader(_text(path))
    names: list[str] | None = None
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            yield f"line {reader.line_num:,}", Unusable(f"no CSV: {type(problem).__name__}")
            continue
        if names is None:
            names = [name.strip().removeprefix("\ufeff") for name in row]
        elif row:
            yield f"line {reader.line_num:,}", (names, row)


def _text(path: Path) -> Iterator[str]:
    for _, line in lines(path, LONGEST):
        if len(line) > LONGEST:
            yield _CUT + "\n"  # its end is gone, and with it the quote that closes a cell
            continue
        yield line.decode("utf-8", "replace").replace("\0", "") + "\n"


def _requests_of(where: str, row: object) -> list[Logged]:
    assert isinstance(row, tuple)
    names, cells = row
    if cells == [_CUT]:
        raise Unusable(TOO_LONG)
    if len(cells) != len(names):
        raise Unusable(f"{len(cells):,} cells for {len(names)} columns")
    record: dict[str, object] = {name: cell for name, cell in zip(names, cells, strict=True) if cell != ""}
    return _requests.requests(where, record)


READER = trace_reader("gateway CSV with requests as JSON", _recognises, TextFormat("gateway-csv", _raw, _requests_of))
