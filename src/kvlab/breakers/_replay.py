"""Prompts with some of the causes fixed, and what an endless cache then hits, by the same code as the curve."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
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


class Prompt(NamedTuple):
    """A prompt's token ids, and the ids of its whole blocks."""

    ids: array[int]
    blocks: list[int]


class Replay:
    """The prompts of a log as they are, and with causes fixed; each version of a prompt is counted once."""

    def __init__(self, requests: Sequence[Logged], encoder: Encoder, block_size: int) -> None:
        self._requests, self._encoder, self.block_size = requests, encoder, block_size
        self._known: dict[tuple[int, tuple[int, ...]], Prompt] = {}

    def with_fixed(self, found: Sequence[Found]) -> list[Prompt]:
        """All prompts with those causes fixed."""
        touching: dict[int, list[Found]] = defaultdict(list)
        for one in found:
            for at in one.members:
                touching[at].append(one)
        return [self._prompt(at, touching.get(at, [])) for at in range(len(self._requests))]

    def hits(self, prompts: Sequence[Prompt]) -> Hits:
        """What an endless cache that starts empty hits of them."""
        inputs = np.array([len(prompt.ids) for prompt in prompts], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(prompt.blocks for prompt in prompts), dtype=np.int64)
        blocks = blocks_of(ids, [len(prompt.blocks) for prompt in prompts], self.block_size, inputs)
        found = reuse(blocks, Window(0, inputs), (), None)
        return Hits(found.tokens, found.ideal.hit_tokens)

    def _prompt(self, at: int, found: list[Found]) -> Prompt:
        key = (at, tuple(id(one) for one in found))
        if key not in self._known:
            try:
                ids = array("i", self._encoder.encode(fixed(self._requests[at], at, found)))
            except Unusable:
                ids = array("i")
            self._known[key] = Prompt(ids, block_ids(ids, self.block_size))
        return self._known[key]
