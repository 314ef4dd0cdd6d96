"""Bytes of a JSON file -> Config, with one line for everything that is something else."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kvlab.core.config import Config
from kvlab.core.errors import BadInput

MAX_CONFIG_BYTES = 16 << 20
"""Far above any config; a larger file is something else and is not read."""
_DEEPEST = 50
"""Objects and lists within each other: far above any config."""


def config(data: bytes, where: str) -> Config:
    """The config in `data`. Raises BadInput, naming line and column, for what is no JSON object."""
    values = json_object(data, where)
    return Config(values, where)


def json_object(data: bytes, where: str) -> dict[str, object]:
    """The JSON object in `data`; NaN and Infinity are accepted, as Python's json writes them."""
    if not data.strip():
        raise BadInput(f"{where} is empty; give a model's config.json")
    try:
        values = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        values = _second_reading(data, where)
    if not isinstance(values, dict):
        raise BadInput(f"{where} holds a JSON {_kind(values)}, not an object; give a model's config.json")
    if _deeper_than(values, _DEEPEST):
        raise _nested(where)
    return values


def _nested(where: str) -> BadInput:
    return BadInput(f"{where} nests objects more than {_DEEPEST} deep, as no config does; give a model's config.json")


def _deeper_than(values: dict[str, object], most: int) -> bool:
    level: list[object] = [values]
    for _ in range(most):
        level = [item for value in level for item in _held(value) if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _held(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _second_reading(data: bytes, where: str) -> object:
    # msgspec is faster; json reads Infinity and names line and column.
    import json

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} is not UTF-8 text (byte {error.start:,}); give a model's config.json") from None
    if text.lstrip()[:1] == "<":
        raise BadInput(f"{where} is HTML or XML, not JSON: a download answered with a page; fetch config.json again")
    try:
        values: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(
            f"{where} is not valid JSON at line {error.lineno}, column {error.colno}: {error.msg};"
            " is the file complete? fetch it again"
        ) from None
    except RecursionError:
        raise _nested(where) from None
    except ValueError as error:
        raise BadInput(f"{where} is JSON that no config is: {str(error)[:80]}; give a model's config.json") from None
    return values


def _kind(value: object) -> str:
    return {list: "array", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")
