"""One thing with two codes, both of which are asked for; the second stands anywhere."""

from __future__ import annotations

from random import Random

from kvlab.core.needle import Hidden, Needle
from kvlab.needles._codes import CODE, codes, fact, things


def _make(source: Random, depth: float) -> Hidden:
    thing, (first, second) = things(source, 1)[0], codes(source, 2)
    return Hidden(
        facts=(fact(thing, first, depth), fact(thing, second, source.random())),
        asks=f"The codes of the {thing}:",
        answers=(first, second),
    )


NEEDLE = Needle(name="multi_value", title="two values of one needle", make=_make, word=CODE)
