"""The files that a command reads and writes: none of them twice, for writing replaces what is there."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from kvlab.core.errors import BadInput

_WRITTEN = {"output": "-o", "save": "--save", "fix": "--fix"}
_READ = (
    *("source", "log", "plan", "traffic", "file", "tokenizer", "model", "prompts", "dataset", "a", "b", "prices"),
    *("name", "url", "lock"),
)
"""Arguments that may name a file; most of them may be something else."""


def refuse_same(options: argparse.Namespace) -> None:
    """Raises BadInput where one file is both read and written, or written twice. A device is not a file."""
    given = vars(options)
    log = given.get("log") is not None and "attach" in given and given["attach"] is None  # serve writes it
    written = {**_WRITTEN, "log": "--log"} if log else _WRITTEN
    outputs = [(option, given[name]) for name, option in written.items() if isinstance(given.get(name), str)]
    for at, (option, path) in enumerate(outputs):
        for other, taken in outputs[:at]:
            if _same(path, taken):
                raise BadInput(f"{other} and {option} both write {path}; name two files")
        for read in _texts(given, [name for name in _READ if name not in written]):
            if os.path.isfile(_plain(read)) and _same(path, read):
                raise BadInput(f"{option} would replace {path}, which the command reads; name another file")


def _texts(given: dict[str, object], names: list[str]) -> Iterator[str]:
    for name in names:
        value = given.get(name)
        yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str))


def _plain(path: str) -> str:
    """What no file can be called is none."""
    return "" if "\0" in path else path


def _same(one: str, other: str) -> bool:
    one, other = _plain(one), _plain(other)
    if not one or not other or (os.path.exists(one) and not os.path.isfile(one)):
        return False
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)
