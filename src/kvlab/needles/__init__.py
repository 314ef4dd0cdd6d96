"""Facts hidden in a long text: one way to hide a file of this folder, found by its `Needle` value.

The kinds are those of RULER (Hsieh et al., "RULER: What's the Real Context Size of Your Long-Context Language Models?",
2024, arxiv.org/abs/2404.06654): a needle alone, among others, one of several values, and a chain of variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from kvlab import variants
from kvlab.core.needle import Fact, Needle

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
_PEOPLE = (
    "baker", "teacher", "farmer", "sailor", "painter", "doctor", "gardener", "neighbour", "singer", "clerk", "weaver",
    "miller", "nurse", "porter", "cook", "carpenter", "widow", "student", "shepherd", "captain",
)  # fmt: skip
_HOW = (
    "old", "young", "quiet", "cheerful", "tired", "careful", "proud", "shy", "tall", "friendly", "stubborn", "clever",
)  # fmt: skip
_DID = (
    "carried", "sold", "repaired", "forgot", "cleaned", "borrowed", "found", "painted", "measured", "wrapped", "lost",
    "bought", "described", "hid", "polished", "admired",
)  # fmt: skip
_WHAT = (
    "a wooden spoon", "a heavy coat", "an empty barrel", "a silver ring", "a loaf of bread", "an oil painting",
    "a broken chair", "a letter", "a bag of apples", "a rusty key", "a small boat", "a glass bowl", "a pair of boots",
    "an iron gate", "a wool blanket", "a stone bench", "a paper map", "a brass bell", "a straw hat", "a clay jar",
)  # fmt: skip
_WHERE = (
    "near the harbour", "behind the church", "on the hill", "in the market", "by the river", "under the bridge",
    "at the station", "in the orchard", "beside the well", "along the wall", "at the mill", "in the valley",
    "outside the inn", "across the square", "near the forest", "on the quay",
)  # fmt: skip
_WHEN = (
    "before sunrise", "in the early spring", "after a long walk", "during the storm", "on a cold morning",
    "at the end of summer", "late in the evening", "while it snowed", "after the concert", "on the first day of autumn",
    "when the wind had dropped", "in the middle of the week", "just before noon", "on a bright afternoon",
)  # fmt: skip


def needles() -> dict[str, Needle]:
    """Every way to hide by name, sorted."""
    return variants.collected(__name__, Needle)


def filler(source: Random) -> Iterator[str]:
    """Sentences without end, none of them twice, that hold no number and no name."""
    said = set[str]()
    while True:
        who = f"the {source.choice(_HOW)} {source.choice(_PEOPLE)}"
        did = f"{source.choice(_DID)} {source.choice(_WHAT)} {source.choice(_WHERE)}"
        when = source.choice(_WHEN)
        sentence = source.choice((f"{who} {did} {when}.", f"{when} {who} {did}.", f"{when}, {who} {did}."))
        if sentence not in said:
            said.add(sentence)
            yield sentence[:1].upper() + sentence[1:]


def buried(sentences: Sequence[str], facts: Sequence[Fact]) -> str:
    """The sentences as one text with each fact at its depth; facts of one depth keep their order."""
    placed: dict[int, list[str]] = {}
    for fact in facts:
        placed.setdefault(round(fact.depth * len(sentences)), []).append(fact.text)
    parts = []
    for at in range(len(sentences) + 1):
        parts += [*placed.get(at, ()), *sentences[at : at + 1]]
    return " ".join(parts)
