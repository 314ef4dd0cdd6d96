"""Words that are one token each to a tokenizer, so that a text has as many tokens as words."""

from __future__ import annotations

from kvlab.core.errors import BadInput
from kvlab.load.exact import Tokenizer
from kvlab.load.together import together

_COMMON = """
the of and to in is was for that on with as by at from his it an were which are this also be had or has first their
after one its new who not they have two her she been other when time during there into all may more school years over
only year most would world city some where between later up such used many can state about national out known
university then made under people these part season war no team being more three while before well game they second
company high south north life several both house place long film through series group each name line music much
party work still town until village old law small large now best early late great member office river side point
water street church field force army game land area station power young family full order school system young book
child class home king light night number open paper play right road room story table tree voice wall week white wind
black blue green red dog cat fish bird horse snow rain fire sea sun moon day hand head eye foot heart door window
"""
LEAST = 64


class Vocabulary:
    """Words of one token each: `starts` at the front of a text, `words` behind a space."""

    def __init__(self, starts: tuple[str, ...], words: tuple[str, ...]) -> None:
        self.starts = starts
        self.words = words


async def vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    """The common English words that the tokenizer takes as one token. Raises BadInput when there are too few."""
    candidates = list(dict.fromkeys(_COMMON.split()))
    front = len(await tokenizer.ids("a", special=False))

    async def single(words: list[str]) -> list[str]:
        count = len(await tokenizer.ids(" ".join(["a", *words]), special=False)) - front
        if count == len(words):
            return words
        half = len(words) // 2
        return [] if not half else [*await single(words[:half]), *await single(words[half:])]

    async def bare(index: int) -> bool:
        return len(await tokenizer.ids(candidates[index], special=False)) == 1

    words = await single(candidates)
    starts = [
        word
        for word, good in zip(candidates, await together(bare, len(candidates), lambda _: None), strict=True)
        if good
    ]
    if len(words) < LEAST or not starts:
        raise BadInput(f"only {len(words)} of {len(candidates)} common words are one token to the engine's tokenizer")
    return Vocabulary(tuple(starts), tuple(words))
