"""Prompts with some of the causes fixed, and what an endless cache then hits, by the same code as the curve."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kvlab.breakers import causes
from kvlab.breakers._pieces import Piece, pieces, rebuilt, without
from kvlab.breakers._search import Found, sorted_pairs
from kvlab.core.trace import Logged, Unusable
from kvlab.traces import Encoder, block_ids, blocks_of
from kvlab.workload.reuse import Window, reuse


class Hits(NamedTuple):
    """Prompt tokens, and those that an endless cache hits."""

    tokens: int
    hit: int


def fixed(logged: Logged, at: int, found: Sequence[Found]) -> Logged:
    """Request `at` with those causes fixed, from the front of the prompt to its end."""
    made, moved = pieces(logged), list[str]()
    order: list[int] | None = None
    for one in found:
        if at not in one.members:
            continue
        if one.shots:
            made, places = sorted_pairs(made, one.level)
            shift = len(made) - len(logged.messages or [])
            order = [place - shift for place in places if place >= shift]
            continue
        text = made[one.level].text
        normal = causes()[one.code].normal
        text = normal(text) if normal is not None else text
        for unit in one.units.get(at, []):
            rest = without(text, unit)
            if rest is not None:
                text = rest
                moved.append(unit.strip())
        made[one.level] = made[one.level]._replace(text=text)
    if moved:
        last = max((place for place, piece in enumerate(made) if piece.role == "user"), default=len(made) - 1)
        made[last] = made[last]._replace(text=_with(made[last], moved))
    return rebuilt(logged, made, order)


def _with(last: Piece, moved: list[str]) -> str:
    return "\n\n".join([last.text.rstrip(), "\n".join(dict.fromkeys(moved))])


class Replay:
    """The prompts of a log as token ids, and as they are with causes fixed."""

    def __init__(self, requests: Sequence[Logged], encoder: Encoder, block_size: int) -> None:
        self._requests, self._encoder, self.block_size = requests, encoder, block_size
        self.plain = [self._ids(logged) for logged in requests]

    def with_fixed(self, found: Sequence[Found]) -> list[array[int]]:
        """Token ids of all prompts with those causes fixed."""
        touched = {at for one in found for at in one.members}
        return [
            self._ids(fixed(logged, at, found)) if at in touched else self.plain[at]
            for at, logged in enumerate(self._requests)
        ]

    def hits(self, prompts: Sequence[array[int]]) -> Hits:
        """What an endless cache that starts empty hits of them."""
        made = [block_ids(ids, self.block_size) for ids in prompts]
        inputs = np.array([len(ids) for ids in prompts], dtype=np.int64)
        blocks = blocks_of(
            [value for ids in made for value in ids], [len(ids) for ids in made], self.block_size, inputs
        )
        found = reuse(blocks, Window(0, inputs), (), None)
        return Hits(found.tokens, found.ideal.hit_tokens)

    def _ids(self, logged: Logged) -> array[int]:
        try:
            return array("i", self._encoder.encode(logged))
        except Unusable:
            return array("i")
