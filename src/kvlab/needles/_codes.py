"""Things and the codes that belong to them."""

from __future__ import annotations

import re
from random import Random

from kvlab.core.needle import Fact

CODE = re.compile(r"\d+")
_COLOURS = ("red", "green", "blue", "white", "black", "yellow", "brown", "grey", "orange", "purple")
_THINGS = ("lamp", "kettle", "mirror", "carpet", "ladder", "clock", "bucket", "helmet", "teapot", "violin")


def things(source: Random, count: int) -> list[str]:
    """Different things."""
    return source.sample([f"{colour} {thing}" for colour in _COLOURS for thing in _THINGS], count)


def codes(source: Random, count: int) -> list[str]:
    """Different numbers of five digits."""
    return [str(code) for code in source.sample(range(10_000, 100_000), count)]


def fact(thing: str, code: str, depth: float) -> Fact:
    """A sentence that tells a thing's code."""
    return Fact(f"The code of the {thing} is {code}.", depth)
