"""Six things with a code each, of which one is asked for."""

from __future__ import annotations

from random import Random

from kvlab.core.needle import Hidden, Needle
from kvlab.needles._codes import CODE, codes, fact, things

_OTHERS = 5


def _make(source: Random, depth: float) -> Hidden:
    thing, *others = things(source, 1 + _OTHERS)
    code, *wrong = codes(source, 1 + _OTHERS)
    facts = [fact(thing, code, depth)]
    facts += [fact(other, another, source.random()) for other, another in zip(others, wrong, strict=True)]
    return Hidden(facts=tuple(facts), asks=f"The code of the {thing} is", answers=(code,))


NEEDLE = Needle(name="multi_key", title="one needle among six", make=_make, word=CODE, tokens=10)
