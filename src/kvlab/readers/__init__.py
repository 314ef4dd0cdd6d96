"""Result files: one reader a file of this folder, found by its `Reader` value.

A file is recognised by what is in it, never by its name. One that holds several runs is read as FILE#2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from kvlab import variants
from kvlab.core.errors import BadInput, shortened
from kvlab.core.result import Document, Reader, Result
from kvlab.core.units import MOST
from kvlab.readers._documents import documents
from kvlab.readers._fields import absurd

_CHOSEN = re.compile(r"(.+)#(\d{1,6})")
_LISTED = 8


@cache
def readers() -> tuple[Reader, ...]:
    """Every reader, by name."""
    return tuple(sorted(variants.collected(__name__, Reader).values(), key=lambda reader: reader.name))


def located(path: Path) -> tuple[Path, int | None]:
    """The file that `path` names, and which of its runs: FILE#2 is the second, unless a file has that very name."""
    chosen = _CHOSEN.fullmatch(str(path))
    if chosen is None or path.exists():
        return path, None
    return Path(chosen[1]), int(chosen[2])


def read(path: Path) -> Result:
    """Read one run of a result file of any known format; FILE#2 reads the second of several.

    Raises BadInput in one line for a file that is missing, empty, cut short, HTML, of no known format, that holds
    several runs when none is chosen, or that states a number which cannot have been measured.
    """
    file, chosen = located(path)
    found = documents(file)
    reader = _reader(file, found)
    run = _run(file, [run for document in found for run in reader.runs(document)], reader, chosen)
    result = reader.read(run, file)
    _check(result, path)
    return result


def _reader(path: Path, found: Sequence[Document]) -> Reader:
    for reader in readers():
        if all(reader.recognises(document) for document in found):
            return reader
    for reader in readers():
        if any(reader.recognises(document) for document in found):
            raise BadInput(f"{path} holds results of {reader.title} and others; give each a file of its own")
    known = ", ".join(reader.title for reader in readers())
    keys = shortened(", ".join(_names(found[0])), 200) or "none"
    raise BadInput(f"{path} is no result file that kvlab reads ({known}); its keys: {keys}")


def _names(document: Document) -> list[str]:
    blocks = document.get("csv")
    return blocks[0][0][:8] if isinstance(blocks, list) and blocks else list(document)[:8]


def _run(path: Path, runs: Sequence[Document], reader: Reader, chosen: int | None) -> Document:
    if not runs:
        raise BadInput(f"{path} has {reader.title}'s form and holds no run; was it interrupted?")
    if chosen is None and len(runs) == 1:
        return runs[0]
    if chosen is not None and 1 <= chosen <= len(runs):
        return runs[chosen - 1]
    labels = [shortened(reader.label(run), 90) for run in runs]
    names = [f"#{at} ({label})" if label else f"#{at}" for at, label in enumerate(labels, 1)]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    choices = ", ".join(names[:_LISTED]) + more
    if chosen is None:
        raise BadInput(f"{path} holds {len(runs)} runs; choose one, as {path}#1: {choices}")
    raise BadInput(f"{path} holds {len(runs)} run{'s' * (len(runs) > 1)}, and none is #{chosen}: {choices}")


def _check(result: Result, path: Path) -> None:
    stated = [*result.metrics.items(), *result.load.items(), *((name, own.value) for name, own in result.own.items())]
    for name, number in stated:
        if isinstance(number, float) and not 0 <= number <= MOST:
            raise absurd(path, name, number)
    repeated = {f"{name}, repetition": own.values for name, own in result.own.items()}
    for name, values in repeated.items():
        for index, value in enumerate(values):
            if not 0 <= value <= MOST:
                raise absurd(path, f"{name} {index}", value)
    for name, values in result.lists.items():
        for index, value in enumerate(values):
            if not 0 <= value <= MOST:
                raise absurd(path, f"{name} of request {index} of those that completed", value)
