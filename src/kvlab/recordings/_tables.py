"""Series in CSV: columns that state kvlab's words."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping

import msgspec

from kvlab.core.diagnosis import Look
from kvlab.core.errors import BadInput
from kvlab.core.scrape import Reading, believed

_LEAST_SECONDS = 1e-3


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """How a CSV file states the looks of one engine."""

    engine: str
    words: Mapping[str, tuple[str, float]]
    """Column -> word, and what its numbers are multiplied with."""
    time: str | None = None
    """The column that holds seconds; None: rows are a fixed time apart, which the user gives."""


def looks(table: Table, text: str, path: str, seconds: float | None) -> tuple[Look, ...]:
    """A look for each row, in order. Raises BadInput naming the row that is damaged."""
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise BadInput(f"{path} is not a CSV file: {error}") from None
    if not rows:
        raise BadInput(f"{path} has a header and no rows")
    if table.time is None and len(rows) > 1 and seconds is None:
        raise BadInput(f"{path} does not say when its rows were read: give the seconds between two with --seconds N")
    found, start, before = list[Look](), None, -math.inf
    for number, row in enumerate(rows, 2):
        at = _number(row, table.time, path, number) if table.time else (number - 2) * (seconds or 1.0)
        start = at if start is None else start
        if at - start < before + _LEAST_SECONDS:
            raise BadInput(f"{path}: row {number} is not later than the one before it")
        before = at - start
        found.append(Look(before, _reading(table, row, path, number)))
    return tuple(found)


def _reading(table: Table, row: Mapping[str, str | None], path: str, number: int) -> Reading:
    stated = {
        word: _number(row, column, path, number) * factor
        for column, (word, factor) in table.words.items()
        if row.get(column)
    }
    line = ",".join(value or "" for value in row.values() if not isinstance(value, list))
    return Reading(engine=table.engine, values=believed(stated), lines=dict.fromkeys(stated, f"row {number}: {line}"))


def _number(row: Mapping[str, str | None], column: str, path: str, number: int) -> float:
    try:
        value = float(row.get(column) or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInput(f"{path}: row {number} has no number in {column}; the file is cut short or damaged")
    return value
