"""Parquet files: block ids (Mooncake's columns), requests as JSON or nested columns, or lengths alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kvlab.core.errors import BadInput, shortened
from kvlab.core.trace import Reading, TextFormat, Trace, TraceReader, Unusable
from kvlab.traces import _requests
from kvlab.traces._hashed import HashedRow, hashed
from kvlab.traces._rows import MOST_TOKENS, Rows
from kvlab.traces._text import read as read_text

if TYPE_CHECKING:
    import polars as pl

_AT_ONCE = 1024
"""Rows that are in memory as Python values."""
_INPUTS = re.compile(r"(num_)?(prompt|input|context|prefill|request)[_ ]?(tokens|length|len)", re.IGNORECASE)
_OUTPUTS = re.compile(
    r"(num_)?(completion|output|generated|decode|response|answer)[_ ]?(tokens|length|len)", re.IGNORECASE
)
_TEXT = frozenset({*_requests.PROMPTS, *_requests.BODIES})


def _read(path: Path, reading: Reading) -> Trace:
    names = _columns(path)
    if "hash_ids" in names and "input_length" in names:
        return _hashed(path)
    if _TEXT & set(names):
        return read_text(path, TEXT, reading)
    inputs, outputs = (next((name for name in names if form.fullmatch(name)), None) for form in (_INPUTS, _OUTPUTS))
    if inputs is None:
        raise BadInput(
            f"{path} has no column of prompts, block ids or prompt tokens; it has {shortened(', '.join(names), 80)}"
        )
    return _lengths(path, inputs, outputs, next((name for name in names if name.lower() in _times()), None))


def _times() -> set[str]:
    return {name.lower() for name in _requests.TIMES}


def _scanned(path: Path) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_parquet(path, glob=False)


def _columns(path: Path) -> list[str]:
    try:
        return _scanned(path).collect_schema().names()
    except Exception as problem:
        raise _damaged(path, problem) from None


def _damaged(path: Path, problem: Exception) -> BadInput:
    return BadInput(f"{path} cannot be read as Parquet: {shortened(' '.join(str(problem).split()), 120)}")


def _rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """(number from 1, row). Raises BadInput for a damaged file."""
    at = 0
    while True:
        try:
            part = _scanned(path).slice(at, _AT_ONCE).collect()
        except Exception as problem:
            raise _damaged(path, problem) from None
        if not part.height:
            return
        for row in part.iter_rows(named=True):
            at += 1
            yield at, row


def _raw(path: Path) -> Iterator[tuple[str, object]]:
    for number, row in _rows(path):
        yield f"row {number:,}", _without_nothing(row)


def _without_nothing(value: object) -> object:
    """Nested columns hold None where a row lacks a key."""
    if isinstance(value, dict):
        return {key: _without_nothing(item) for key, item in value.items() if item is not None}
    return [_without_nothing(item) for item in value] if isinstance(value, list) else value


def _hashed(path: Path) -> Trace:
    rows = Rows(path)
    return hashed(path, "parquet", rows, _hashed_rows(path, rows))


def _hashed_rows(path: Path, rows: Rows) -> Iterator[tuple[str, HashedRow]]:
    for where, row in _raw(path):
        try:
            yield where, msgspec.convert(row, HashedRow)
        except msgspec.ValidationError as problem:
            rows.leave_out(where, str(problem)[:120])


def _lengths(path: Path, inputs: str, outputs: str | None, time: str | None) -> Trace:
    rows = Rows(path)
    for number, row in _rows(path):
        counts = [row[inputs], row[outputs] if outputs else 0]
        try:
            moment = _requests.seconds(row[time]) if time else 0.0
        except Unusable as why:
            rows.leave_out(f"row {number:,}", str(why))
            continue
        if any(
            isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_TOKENS for count in counts
        ):
            rows.leave_out(f"row {number:,}", f"no lengths of 0 to {MOST_TOKENS:,}")
        else:
            rows.add(moment, *counts)  # type: ignore[arg-type]
    trace = rows.trace("parquet", 1.0)
    return trace._replace(outputs=trace.outputs if outputs else None, arrivals=trace.arrivals if time else None)


TEXT = TextFormat("parquet", _raw, _requests.requests)
READER = TraceReader("Parquet", lambda head: head.startswith("PAR1"), _read, TEXT)
