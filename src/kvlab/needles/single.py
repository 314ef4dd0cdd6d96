"""One code, and nothing like it."""

from __future__ import annotations

from random import Random

from kvlab.core.needle import Hidden, Needle
from kvlab.needles._codes import CODE, codes, fact, things


def _make(source: Random, depth: float) -> Hidden:
    thing, code = things(source, 1)[0], codes(source, 1)[0]
    return Hidden(facts=(fact(thing, code, depth),), asks=f"The code of the {thing} is", answers=(code,))


NEEDLE = Needle(name="single", title="one needle", make=_make, word=CODE, tokens=10)
