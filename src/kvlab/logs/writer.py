"""Which engine wrote a log."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvlab import engines
from kvlab.core.errors import BadInput
from kvlab.logs.text import texts_of

_LOOK_LINES = 2000
"""Lines among which the first recognisable one must stand."""
_LOOK_BYTES = 1 << 12
"""Bytes of each of them that are looked at."""

_DOCUMENT = re.compile(rb'\s*\{\s*"schema"\s*:\s*"(kvlab/[a-z0-9_-]+)@')


def refuse_document(head: bytes, path: str) -> None:
    """Raises BadInput where `head`, a log's first block, begins a document that kvlab itself wrote: its words are those
    of an engine, and none of them was said by one.
    """
    if found := _DOCUMENT.match(head):
        raise BadInput(
            f"{path} is a document of kvlab ({found[1].decode()}), not the log of an engine; give what the engine wrote"
        )


def recognised(head: bytes) -> str | None:
    """The engine that wrote the first line of `head`, a log's first block, that only one engine writes; None: none.

    Where it may be another one's child, and a later line is that one's, the other.
    """
    readers = [(name, engines.log_reader(name)) for name in engines.names()]
    found = next((name for text in _texts(head) for name, reader in readers if reader.recognises(text)), None)
    parents = [reader.recognises for _, reader in readers if found in reader.holds]
    parent = any(recognises(text) for recognises in parents for text in _texts(head))
    return next(name for name, reader in readers if found in reader.holds) if parent else found


def writers(head: bytes) -> tuple[str, ...]:
    """Every engine of which a line stands in `head`."""
    texts = list(_texts(head))
    return tuple(name for name in engines.names() if any(map(engines.log_reader(name).recognises, texts)))


def _texts(head: bytes) -> Iterator[str]:
    """The engine's own lines; then those whose JSON names the engine's logger beside the line."""
    raws = [raw[:_LOOK_BYTES] for raw in head.split(b"\n", _LOOK_LINES)[:_LOOK_LINES]]
    wrapped = []
    for raw in raws:
        texts = texts_of(raw)
        yield from texts
        whole = raw.decode("utf-8", "replace")
        if texts != [whole] and "{" in whole:
            wrapped.append(whole)
    yield from wrapped
