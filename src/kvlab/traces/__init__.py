"""Trace files: one reader a file of this folder, found by its `TraceReader` value."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from kvlab import variants
from kvlab.core.errors import BadInput, shortened
from kvlab.core.trace import Logged, Reading, Sampling, Trace, TraceReader
from kvlab.traces import _text
from kvlab.traces._lines import lines, opened, packed
from kvlab.traces._requests import body_of
from kvlab.traces._rewrite import record_of
from kvlab.traces._rows import blocks_of
from kvlab.traces._tokens import Encoder, encoder
from kvlab.traces._tokens import load as tokenizer

__all__ = [
    "Encoder",
    "block_ids",
    "blocks_of",
    "body_of",
    "encoder",
    "holds_requests",
    "logged",
    "named",
    "of_part",
    "opened",
    "packed",
    "read",
    "reader",
    "readers",
    "reading",
    "record_of",
    "tokenizer",
]

_LOOK = 1 << 16
_LARGEST = 1 << 20
_ROWS_LOOKED_AT = 1000
_AS_IT_IS = Reading()


def reading(tokenizer: str | None, estimate: bool, block_size: int, sample: str = "100%") -> Reading:
    """How the logs of one run are read, with a salt that no other run has.

    `sample`: the share of the blocks that is kept, "1%" or "0.01". Raises BadInput for a block size or a share.
    """
    if not 1 <= block_size <= _LARGEST:
        raise BadInput(f"--block-size {block_size} must be from 1 to {_LARGEST:,} tokens")
    rate = _share(sample)
    sampling = Sampling(rate) if rate < 1 else None
    return Reading(tokenizer, estimate and tokenizer is None, block_size, os.urandom(16), sampling=sampling)


def _share(text: str) -> float:
    number = text.strip()
    try:
        value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise BadInput(
            f"--sample {shortened(text)!r} is no share of the blocks; give one as in 1% or 0.01, 100% for all"
        )
    return value


def of_part(reading: Reading, part: int) -> Reading:
    """How the file of that number is read, of the files of one workload."""
    return reading if reading.sampling is None else reading._replace(sampling=reading.sampling._replace(part=part))


@cache
def readers() -> dict[str, TraceReader]:
    """Every reader by the name of its file, sorted."""
    return {name.replace("_", "-"): value for name, value in variants.collected(__name__, TraceReader).items()}


def named(files: Sequence[object]) -> list[Path]:
    """The files of one workload. Raises BadInput for none, for one that is no path, and for one that is named twice."""
    if not files:
        raise BadInput("no trace is named; give at least one file")
    for file in files:
        if not isinstance(file, str | os.PathLike) or not str(file):
            raise BadInput(f"a trace is named {shortened(repr(file))}, which is no path; give files")
    paths = [Path(file) for file in files if isinstance(file, str | os.PathLike)]
    seen: dict[str, Path] = {}
    for path in paths:
        place = os.path.realpath(path) if "\0" not in str(path) else str(path)
        if place in seen:
            raise BadInput(f"{path} is named twice (as {seen[place]}): its requests would count twice; name it once")
        seen[place] = path
    return paths


def read(path: Path, form: str | None = None, reading: Reading = _AS_IT_IS) -> Trace:
    """Reads a trace of any known format, plain, .gz or .zst; `form` names the format where its lines do not tell.

    With `reading.sampling` its blocks are a sample: all requests are there, with what they held before.

    Raises BadInput in one line for a file that is missing, of no known format, or without a row that can be used.
    """
    found = reader(path, form).read(path, reading)
    if reading.sampling is None or found.blocks is None:
        return found
    from kvlab.traces._sample import sampled

    return found._replace(blocks=sampled(found.blocks, reading.sampling))


def reader(path: Path, form: str | None = None) -> TraceReader:
    """The reader of that name, or the one that the file's content tells. Raises BadInput when there is none."""
    from kvlab.core.errors import nearest

    if form is not None:
        if form not in readers():
            raise BadInput(f"no trace format {shortened(str(form))!r}; {nearest(str(form), readers())}")
        return readers()[form]
    head = _head(path)
    if not head.strip():
        raise BadInput(f"{path} is empty; give a trace with a row a request")
    found = next((value for value in readers().values() if value.recognises(head)), None)
    if found is None:
        known = ", ".join(value.title for value in readers().values())
        raise BadInput(f"{path} is no trace that kvlab reads ({known}); it begins {shortened(head.strip(), 80)!r}")
    return found


def logged(path: Path, form: str | None = None) -> Iterator[Logged]:
    """The requests of a log with their text; nothing for a format that holds none. Raises BadInput as `read` does."""
    text = reader(path, form).text
    if text is not None:
        yield from _text.logged(path, text)


def holds_requests(path: Path, form: str | None = None) -> bool:
    """Whether the file holds the requests themselves, and not only their lengths, as its first rows show.

    Raises BadInput as `read` does.
    """
    text = reader(path, form).text
    return text is not None and any(True for _ in _text.logged(path, text, most=_ROWS_LOOKED_AT))


def block_ids(ids: array[int], size: int) -> list[int]:
    """Ids of the whole blocks of a prompt, each standing for all before it too."""
    return _text.chained(ids, size, b"")


def _head(path: Path) -> str:
    found: list[bytes] = []
    left = _LOOK
    for _, line in lines(path, _LOOK):
        if found or line.strip():
            found.append(line)
            left -= len(line)
        if left <= 0:
            break
    return b"\n".join(found)[:_LOOK].decode("utf-8", "replace").removeprefix("\ufeff")
