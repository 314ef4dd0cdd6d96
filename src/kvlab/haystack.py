"""Texts that hide facts, of a length that the engine's own tokenizer counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from random import Random

import msgspec

from kvlab import needles
from kvlab.core.errors import BadInput
from kvlab.core.needle import Hidden, Needle
from kvlab.load.clock import first_error
from kvlab.load.exact import Tokenizer

_AT_ONCE = 4
_TRIES = 12
_SLACK = 24
"""Tokens that a text may be shorter than asked: one sentence."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One text to make: its length in tokens with the question, its way to hide, and the depth of what is asked."""

    id: str
    length: int
    needle: str
    depth: float


class Hay(msgspec.Struct, frozen=True, kw_only=True):
    """A text that was made, and its tokens as the engine counts them."""

    cell: Cell
    hidden: Hidden
    text: str
    tokens: int


def cells(lengths: Sequence[int], items: int) -> tuple[Cell, ...]:
    """`items` cells: the lengths in turn, then the depths, then the ways to hide."""
    kinds = tuple(needles.needles())
    found = []
    for number in range(items):
        turn, length = divmod(number, len(lengths))
        turn, depth = divmod(turn, len(needles.DEPTHS))
        kind, depth_at = kinds[turn % len(kinds)], needles.DEPTHS[depth]
        name = f"{kind}-{lengths[length]}-{round(100 * depth_at)}-{turn // len(kinds) + 1}"
        found.append(Cell(id=name, length=lengths[length], needle=kind, depth=depth_at))
    return tuple(found)


async def haystacks(
    tokenizer: Tokenizer, asked: Sequence[Cell], seed: int, done: Callable[[int], None]
) -> tuple[Hay, ...]:
    """A text for each cell. Every text has sentences of its own from its first word on: what an engine keeps of one
    prompt says nothing of the next, and the same prompt sent again may be answered from what it keeps.

    Raises BadInput for a length without room, ServerRefused when the tokenizer does not answer.
    """
    kinds, made, gate = needles.needles(), 0, asyncio.Semaphore(_AT_ONCE)

    async def one(cell: Cell) -> Hay:
        nonlocal made
        async with gate:
            hay = await _fit(tokenizer, cell, kinds[cell.needle], Random(f"kvlab {cell.id} {seed}"))
        made += 1
        done(made)
        return hay

    async with first_error(), asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(cell)) for cell in asked]
    return tuple(task.result() for task in tasks)


async def _fit(tokenizer: Tokenizer, cell: Cell, needle: Needle, source: Random) -> Hay:
    """As many sentences as the length holds: scaled until one more would be too many."""
    hidden = needle.make(source, cell.depth)
    sentences = list(islice(needles.filler(source), 4 + cell.length // 8))
    least, most, take = -1, len(sentences) + 1, min(len(sentences), max(1, cell.length // 16))
    best: Hay | None = None
    for _ in range(_TRIES):
        text = f"{needles.buried(sentences[:take], hidden.facts)}\n\n{hidden.asks}"
        tokens = len(await tokenizer.ids(text))
        if tokens <= cell.length:
            least, best = take, Hay(cell=cell, hidden=hidden, text=text, tokens=tokens)
        else:
            most = take
        if most - least <= 1 or 0 <= cell.length - tokens < _SLACK:
            break
        guess = take + round((cell.length - tokens) / max(8.0, tokens / max(1, take)))
        take = min(most - 1, max(least + 1, guess))
    if best is None:
        raise BadInput(f"{cell.length} tokens have no room for a question of retrieval; ask for longer --lengths")
    return best
