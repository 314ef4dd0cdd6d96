"""A result file as documents: a JSON object, a list of them, one on each line, or a CSV table."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import msgspec

from kvlab import store
from kvlab.core.errors import BadInput
from kvlab.core.result import Document


def documents(path: Path) -> tuple[Document, ...]:
    """At least one. Raises BadInput in one line for what is no result file at all."""
    data = store.read_bytes(path, "result file")
    if not data.strip():
        raise BadInput(f"{path} is empty; was the run interrupted before it wrote its result?")
    start = data.lstrip()[:1]
    if start == b"<":
        raise BadInput(f"{path} is HTML or XML, not a result file; save the JSON itself")
    if start not in (b"{", b"["):
        table = _table(data)
        if table is not None:
            return (table,)
    return _json(path, data)


def _json(path: Path, data: bytes) -> tuple[Document, ...]:
    try:
        document = _decoded(data)
    except RecursionError:
        raise BadInput(f"{path} is no result file: its JSON is nested too deeply") from None
    except ValueError as problem:
        lines = _lines(data)
        if lines:
            return lines
        raise BadInput(_why(path, data, problem)) from None
    found = document if isinstance(document, list) else [document]
    if not found or not all(isinstance(item, dict) for item in found):
        kind = "an empty list" if document == [] else f"a JSON {type(document).__name__}"
        raise BadInput(f"{path} holds {kind}, a result file holds an object, or a list of objects")
    return tuple(found)


def _decoded(data: bytes) -> object:
    """JSON, and what Python's json module writes beyond it: NaN and Infinity. Raises ValueError."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        if b"Infinity" not in data and b"NaN" not in data:
            raise
        return json.loads(data)


def _lines(data: bytes) -> tuple[Document, ...]:
    """The objects of a file with one on each line; none when a line is anything else."""
    found = []
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            document = _decoded(line)
        except (ValueError, RecursionError):
            return ()
        if not isinstance(document, dict):
            return ()
        found.append(document)
    return tuple(found)


def _why(path: Path, data: bytes, problem: ValueError) -> str:
    if "truncated" in str(problem):
        return f"{path} is cut short after {len(data)} bytes; copy it again or repeat the run"
    return f"{path} is not JSON: {problem}"


def _table(data: bytes) -> Document | None:
    """Rows of more than one cell, in blocks between empty lines; None when the first line is no head of a table."""
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(data.decode("utf-8-sig").splitlines())]
    except (UnicodeDecodeError, csv.Error):
        return None
    blocks: list[list[list[str]]] = [[]]
    for row in rows:
        if any(row):
            blocks[-1].append(row)
        elif blocks[-1]:
            blocks.append([])
    blocks = [block for block in blocks if block]
    return {"csv": blocks} if blocks and len(blocks[0][0]) > 1 and len(blocks[0]) > 1 else None
