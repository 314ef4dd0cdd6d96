"""Result files: one reader a file of this folder, found by its `Reader` value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from kvlab import store, variants
from kvlab.core.errors import BadInput, shortened
from kvlab.core.result import Reader, Result
from kvlab.core.units import MOST
from kvlab.core.vllm_result import LOAD_KEYS, is_metric


@cache
def readers() -> tuple[Reader, ...]:
    """Every reader, by name."""
    return tuple(sorted(variants.collected(__name__, Reader).values(), key=lambda reader: reader.name))


def read(path: Path) -> Result:
    """Read a result file of any known format.

    Raises BadInput in one line for a file that is missing, empty, cut short, HTML, of no known format, or that states
    a number which cannot have been measured.
    """
    document = _document(path)
    for reader in readers():
        if reader.recognises(document):
            _check_numbers(document, path)
            result = reader.read(document, path)
            _check_lists(result, path)
            return result
    known = ", ".join(reader.title for reader in readers())
    keys = shortened(", ".join(list(document)[:8]), 200) or "none"
    raise BadInput(f"{path} is no result file that kvlab reads ({known}); its keys: {keys}")


def _check_numbers(document: Mapping[str, object], path: Path) -> None:
    for key, value in document.items():
        if not is_metric(key) and key not in LOAD_KEYS:
            continue
        wrong_kind = is_metric(key) and (isinstance(value, bool) or not isinstance(value, int | float | None))
        if wrong_kind or (isinstance(value, int | float) and not 0 <= value <= MOST):
            raise _absurd(path, key, value)


def _check_lists(result: Result, path: Path) -> None:
    for name, values in result.lists.items():
        for index, value in enumerate(values):
            if not 0 <= value <= MOST:
                raise _absurd(path, f"{name} of request {index} of those that completed", value)


def _absurd(path: Path, key: str, value: object) -> BadInput:
    return BadInput(
        f"{path}: {key} is {shortened(repr(value))}, and must be a number from 0 to 2^60; the file was edited or is"
        " damaged: repeat the run"
    )


def _document(path: Path) -> Mapping[str, object]:
    data = store.read_bytes(path, "result file")
    if not data.strip():
        raise BadInput(f"{path} is empty; was the run interrupted before it wrote its result?")
    if data.lstrip()[:1] == b"<":
        raise BadInput(f"{path} is HTML or XML, not a result file; save the JSON itself")
    try:
        document: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise BadInput(_why(path, data, problem)) from None
    except RecursionError:
        raise BadInput(f"{path} is no result file: its JSON is nested too deeply") from None
    if not isinstance(document, dict):
        raise BadInput(f"{path} holds a JSON {type(document).__name__}, a result file holds an object")
    return document


def _why(path: Path, data: bytes, problem: Exception) -> str:
    lines = [line for line in data.splitlines() if line.strip()]
    if len(lines) > 1 and all(_is_object(line) for line in lines):
        # `vllm bench serve --append-result` adds a line for every run.
        return f"{path} holds {len(lines)} results, one a line; give one of them a file of its own"
    if "truncated" in str(problem):
        return f"{path} is cut short after {len(data)} bytes; copy it again or repeat the run"
    return f"{path} is not JSON: {problem}"


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
