"""The lines of a log that any of many patterns may match, with their numbers, without looking at most lines twice.

Servers say the same again and again with other numbers. So a line is reduced to its kind (each digit or hexadecimal
letter a 0, the rest in lower case); which patterns may match is found out once for each kind, by the literals that the
patterns need, and most of a long log is then passed over at the speed of a dictionary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from kvlab.core.needles import needles
from kvlab.logs.text import damaged, texts_of, without_end, without_last_word, without_start

Sought = TypeVar("Sought")

LONGEST_LINE = 1 << 14
"""Bytes of a line that are looked at together: a longer one is read in parts of this size."""
_KNOWN_BYTES = 24 << 20
"""Memory that the kinds of lines may take, with _OF_KIND for each; then they are found out anew."""
_OF_KIND = 120
_KIND = bytes.maketrans(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef", b"0000000000000000ghijklmnopqrstuvwxyz000000")
_NEIGHBOUR = 48
"""Bytes at the start of a line in which damage makes the end of the line before it doubtful."""


class Line(NamedTuple, Generic[Sought]):
    """One line of the log, numbered from 1, and what was sought that may stand in it."""

    number: int
    text: str
    whole: bool
    """Whether it ends where its writer ended it."""
    sought: tuple[Sought, ...]


class _Part(NamedTuple):
    """A line of a block, or a part of a long one."""

    raw: bytes
    number: int
    begins: bool
    ends: bool


class Scan(Generic[Sought]):
    """One pass over a log for (pattern, what it stands for). Memory: a block, and the kinds of lines seen."""

    def __init__(self, sought: Iterable[tuple[re.Pattern[str], Sought]]) -> None:
        self._sought: list[Sought] = []
        self._by_needle: dict[bytes, list[int]] = {}
        self._always: list[int] = []
        for at, (pattern, stands_for) in enumerate(sought):
            self._sought.append(stands_for)
            literals = needles(pattern, any_case=True)
            for literal in literals or ():
                self._by_needle.setdefault(literal.encode().translate(_KIND), []).append(at)
            if literals is None:  # every line has to be looked at
                self._always.append(at)
        self._of_kind: dict[bytes, tuple[Sought, ...]] = {}
        self._known: set[bytes] = set()
        self._known_bytes = 0
        self._newlines = 0
        self._open = False

    @property
    def lines(self) -> int:
        """How many lines there were so far."""
        return self._newlines + self._open

    @property
    def cut(self) -> bool:
        """Whether what was read so far ends within a line."""
        return self._open

    def feed(self, block: bytes) -> Iterator[Line[Sought]]:
        """The lines of one more block that may hold something sought. A block ends with a line, or inside a long one.

        Use all of them before the next block.
        """
        kinds = block.translate(_KIND).split(b"\n")
        if len(max(kinds, key=len)) > LONGEST_LINE:
            parts = list(self._parts(block))
            kinds = [part.raw.translate(_KIND) for part in parts]
            self._learn(kinds)
            hits = [at for at, kind in enumerate(kinds) if kind in self._of_kind]
            for at in hits:
                after = parts[at + 1].raw if at + 1 < len(parts) else b""
                yield from self._texts(parts[at], self._of_kind[kinds[at]], after)
        else:
            self._learn(kinds)
            hits = [at for at, kind in enumerate(kinds) if kind in self._of_kind]
            raws = block.split(b"\n") if hits else []
            for at in hits:
                last = at + 1 == len(raws)
                part = _Part(raws[at], self._newlines + at + 1, begins=at > 0 or not self._open, ends=not last)
                yield from self._texts(part, self._of_kind[kinds[at]], b"" if last else raws[at + 1])
        self._newlines += block.count(b"\n")
        self._open = not block.endswith(b"\n")

    def _parts(self, block: bytes) -> Iterator[_Part]:
        raws = block.split(b"\n")
        for at, raw in enumerate(raws):
            for start in range(0, len(raw) or 1, LONGEST_LINE):
                yield _Part(
                    raw[start : start + LONGEST_LINE],
                    self._newlines + at + 1,
                    begins=start == 0 and (at > 0 or not self._open),
                    ends=at + 1 < len(raws) and start + LONGEST_LINE >= len(raw),
                )

    def _learn(self, kinds: list[bytes]) -> None:
        """Finds out what may stand in lines of kinds that were not seen before."""
        fresh = set(kinds).difference(self._known)
        if not fresh:
            return
        size = sum(map(len, fresh)) + _OF_KIND * len(fresh)
        if self._known_bytes + size > _KNOWN_BYTES:
            fresh = set(kinds)
            self._known, self._of_kind, self._known_bytes = set(), {}, 0
            size = sum(map(len, fresh)) + _OF_KIND * len(fresh)
        self._known |= fresh
        self._known_bytes += size
        found: dict[bytes, set[int]] = {kind: set(self._always) for kind in fresh if self._always}
        text = b"\n".join(fresh)
        for needle, stand_for in self._by_needle.items():
            at = text.find(needle)
            while at >= 0:
                end = text.find(b"\n", at)
                end = len(text) if end < 0 else end
                found.setdefault(text[text.rfind(b"\n", 0, at) + 1 : end], set()).update(stand_for)
                at = text.find(needle, end)
        for kind, indices in found.items():
            self._of_kind[kind] = tuple(self._sought[index] for index in sorted(indices))

    def _texts(self, part: _Part, sought: tuple[Sought, ...], after: bytes) -> Iterator[Line[Sought]]:
        """A carriage return ends a text too: progress bars write over themselves with it."""
        raws = [raw for raw in part.raw.split(b"\r") if raw]
        for raw_at, raw in enumerate(raws):
            texts = texts_of(raw)
            if raw_at == 0 and not part.begins:
                texts[0] = without_start(texts[0])
            last = raw_at + 1 == len(raws)
            # The last letter may be cut in two.
            struck = last and damaged(after[:_NEIGHBOUR].decode("utf-8", "replace")[:-1])
            whole = not last or (part.ends and not struck)
            if not whole:
                texts[-1] = without_last_word(texts[-1]) if struck else without_end(texts[-1])
            for text_at, text in enumerate(texts):
                yield Line(part.number, text, whole or text_at + 1 < len(texts), sought)
