"""Variables that are set to a number or to one another: all that have one number are asked for.

A chain of four begins at the depth and goes on to the end; another chain with another number stands between.
"""

from __future__ import annotations

import re
from random import Random

from kvlab.core.needle import Fact, Hidden, Needle
from kvlab.needles._codes import codes

_LONG = 4


def _make(source: Random, depth: float) -> Hidden:
    names = ["".join(name) for name in source.sample(_NAMES, 2 * _LONG)]
    first, second = codes(source, 2)
    asked, other = names[:_LONG], names[_LONG:]
    facts = _chain(asked, first, [depth, *_later(source, depth)])
    facts += _chain(other, second, [0.0, *_later(source, 0.0)])
    return Hidden(
        facts=tuple(sorted(facts, key=lambda fact: fact.depth)),
        asks=f"Question: which variables have the value {first}? Answer: VAR",
        answers=tuple(asked),
    )


def _later(source: Random, depth: float) -> list[float]:
    return sorted(source.uniform(depth, 1.0) for _ in range(_LONG - 1))


def _chain(names: list[str], value: str, depths: list[float]) -> list[Fact]:
    values = [value, *(f"VAR {name}" for name in names)]
    return [Fact(f"VAR {name} = {of}.", depth) for name, of, depth in zip(names, values, depths, strict=False)]


_NAMES = [a + b + c for a in "BDFGKLMNPRSTVZ" for b in "AEIOU" for c in "BDFGKLMNPRSTXZ"]
NEEDLE = Needle(
    name="tracking",
    title="variables that follow one another",
    make=_make,
    word=re.compile(r"\b[A-Z]{3}\b(?<!VAR)"),
    tokens=32,
)
