"""Series in CSV: columns that state kvlab's words."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping

import msgspec

from kvlab.core.diagnosis import Look
from kvlab.core.errors import BadInput
from kvlab.core.scrape import MOST_SECONDS, Reading, believed

_LEAST_SECONDS = 1e-3
_LATEST = 1e11
"""The year 5138 in seconds since 1970: milliseconds are above it."""


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
    _check_whole(rows, text, path)
    if table.time is None and len(rows) > 1 and seconds is None:
        raise BadInput(f"{path} does not say when its rows were read: give the seconds between two with --seconds N")
    found, start, before = list[Look](), None, None
    for number, row in enumerate(rows, 2):
        at = _number(row, table.time, path, number) if table.time else (number - 2) * (seconds or 1.0)
        start = at if start is None else start
        check_time(at, start, before, f"{path}: row {number}")
        before = at - start
        found.append(Look(before, _reading(table, row, path, number)))
    return tuple(found)


def check_time(at: float, start: float, before: float | None, where: str) -> None:
    """Raises BadInput naming `where` when a look's seconds cannot be, or do not follow.

    `start`: the first look's. `before`: how long after it the one before was; None at the first.
    """
    if not 0 <= at <= _LATEST:
        raise BadInput(f"{where} states {at:g} s as its time; give seconds since 1970, or since the start")
    if before is not None and at - start < before + _LEAST_SECONDS:
        raise BadInput(f"{where} is not later than the one before it; a series is in order of time")
    if at - start > MOST_SECONDS:
        raise BadInput(f"{where} is {(at - start) / 86_400:,.0f} days after the first; are the times seconds?")


def _check_whole(rows: list[dict[str, str]], text: str, path: str) -> None:
    """Half a number reads as a whole one, and half a row as one that does not state the rest."""
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise BadInput(f"{path}: row {number} has not as many columns as the header; the file is cut or damaged")
    if not text.endswith(("\n", "\r")):
        raise BadInput(
            f"{path}: row {len(rows) + 1}, has no line feed at its end and may be cut; remove it, or add one"
        )


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
