"""Texts whose tokens are scored one by one: eight short ones, and documents that are made as long as is asked for.

All of them were written for kvlab. The long ones are made from a fixed seed: every sentence is new, and many repeat a
name or a number that stands far above, so that what a cache has lost at a distance shows in their tokens.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import resources

import msgspec


class FixedText(msgspec.Struct, frozen=True):
    """A text to score."""

    id: str
    kind: str
    text: str


LONG = ("harbour log", "program", "inventory", "interview")
"""Kinds of the long documents."""


def short() -> tuple[FixedText, ...]:
    """The short texts, of 100 to 400 tokens."""
    lines = resources.files(__package__).joinpath("texts.jsonl").read_bytes().splitlines()
    return tuple(msgspec.json.decode(line, type=FixedText) for line in lines)


def long(characters: int) -> tuple[FixedText, ...]:
    """Four documents of at least so many characters each."""
    makers = (_log, _program, _inventory, _interview)
    return tuple(
        FixedText(kind.replace(" ", "-"), kind, _filled(make(random.Random(f"kvlab {kind}")), characters))
        for kind, make in zip(LONG, makers, strict=True)
    )


def _filled(parts: Iterator[str], characters: int) -> str:
    kept, held = [], 0
    while held < characters:
        kept.append(next(parts))
        held += len(kept[-1])
    return "".join(kept)


_SHIPS = ("Alder", "Brigid", "Cormorant", "Dunlin", "Esk", "Fulmar", "Gannet", "Halcyon", "Isolde", "Juniper")
_PORTS = ("Marrow Point", "Lower Fenwick", "Skerry Haven", "Old Quay", "Saltholm", "Brack Bay", "Westerhaven")
_CARGO = ("rye", "slate", "salted herring", "pit props", "coal", "glassware", "wool", "copper wire", "seed potatoes")
_MASTERS = ("Okafor", "Brandt", "Castellano", "Dhillon", "Eriksen", "Fontaine", "Grieve", "Halloran", "Iwasaki")
_WEATHER = ("a light wind from the south-west", "rain since first light", "thick fog", "a hard easterly", "calm air")
_REMARKS = (
    "The tide was late and the pilots waited on the mole.",
    "Nothing else is to be noted, and the lamp was lit at the usual hour.",
    "The crane at the second berth is still out of order; the smith has been told again.",
    "Two of the crew went up to the infirmary and came back before dark.",
    "The customs officer signed the papers without opening a single crate.",
)


def _log(pick: random.Random) -> Iterator[str]:
    """Days in a harbour. A ship keeps its master, its cargo and its debt until the day on which it pays."""
    yield "Log of the harbour office, kept by the duty clerk.\n\n"
    owed: dict[str, tuple[str, str, int]] = {}
    day = 0
    while True:
        day += 1
        yield f"Day {day}. {pick.choice(_WEATHER).capitalize()}. "
        ship = pick.choice(_SHIPS)
        if ship in owed and pick.random() < 0.7:
            master, cargo, sum_owed = owed.pop(ship)
            yield (
                f"The {ship} under {master} cleared the quay, having discharged the last of the {cargo}; the dues of"
                f" {sum_owed} crowns that stood against her were paid in full. "
            )
        else:
            master, cargo = pick.choice(_MASTERS), pick.choice(_CARGO)
            owed[ship] = (master, cargo, pick.randrange(20, 990))
            yield (
                f"Arrived from {pick.choice(_PORTS)} the {ship}, master {master}, with {pick.randrange(20, 400)} tons"
                f" of {cargo}. Dues entered: {owed[ship][2]} crowns. "
            )
        if owed and pick.random() < 0.5:
            name = pick.choice(sorted(owed))
            yield f"The {name} lies still at her berth with {owed[name][1]} and owes {owed[name][2]} crowns. "
        yield f"{pick.choice(_REMARKS)}\n"


_VERBS = ("load", "parse", "merge", "count", "filter", "rank", "split", "store", "check", "trim")
_NOUNS = ("rows", "orders", "tags", "pages", "routes", "prices", "events", "names", "blocks", "scores")


def _program(pick: random.Random) -> Iterator[str]:
    """Functions, of which later ones call earlier ones with the right number of arguments."""
    yield '"""Small steps over a table, each built on those above."""\n\nfrom __future__ import annotations\n\n'
    known: list[tuple[str, tuple[str, ...]]] = []
    number = 0
    while True:
        number += 1
        noun = pick.choice(_NOUNS)
        name = f"{pick.choice(_VERBS)}_{noun}_{number}"
        arguments = (noun, *pick.sample(["limit", "offset", "strict", "key"], pick.randrange(0, 3)))
        lines = [f"def {name}({', '.join(arguments)}):", f'    """Step {number}: {name.replace("_", " ")}."""']
        lines.append(f"    found = [item for item in {noun} if item is not None]")
        if "limit" in arguments:
            lines.append(f"    found = found[: limit + {pick.randrange(1, 9)}]")
        if known:
            other, takes = pick.choice(known)
            passed = ", ".join(["found", *(word if word in arguments else "None" for word in takes[1:])])
            lines.append(f"    found = {other}({passed})")
        lines.append(f"    return found  # {name}\n\n")
        known.append((name, arguments))
        yield "\n".join(lines) + "\n"


_THINGS = ("lamp", "kettle", "ledger", "compass", "bellows", "anvil", "spindle", "barometer", "lantern", "chisel")
_COLOURS = ("grey", "dark blue", "ochre", "dull red", "bottle green", "white", "black")
_ROOMS = ("the north loft", "the cellar", "the workshop", "the porch", "the drying room", "the office")


def _inventory(pick: random.Random) -> Iterator[str]:
    """Numbered things with their place and worth; every fifth line asks for one of those above and repeats it."""
    yield "Inventory of the mill, with the questions of the auditor and the answers of the keeper.\n\n"
    rows: list[tuple[int, str, str, int]] = []
    while True:
        number = len(rows) + 1
        rows.append(
            (
                number,
                f"{pick.choice(_COLOURS)} {pick.choice(_THINGS)}",
                pick.choice(_ROOMS),
                pick.randrange(3, 400),
            )
        )
        _, thing, room, worth = rows[-1]
        yield f"Item {number}: {thing}, kept in {room}, worth {worth} crowns.\n"
        if number % 5 == 0:
            at, thing, room, worth = pick.choice(rows)
            yield (
                f"Question: where is item {at} kept, and what is it worth? Answer: item {at}, the {thing}, is kept in"
                f" {room} and is worth {worth} crowns.\n"
            )


_TOPICS = ("the flood", "the new bridge", "the school roof", "the ferry", "the market hall", "the old signal box")
_OPINIONS = ("it was done too late", "nobody had asked the people who use it", "it was worth every crown of it")


def _interview(pick: random.Random) -> Iterator[str]:
    """A long talk. What the speaker once said of a year or a sum is what is said of it later on."""
    yield "Interview with the former surveyor of the district, recorded in four sittings.\n\n"
    said: dict[str, tuple[int, int, str]] = {}
    while True:
        topic = pick.choice(_TOPICS)
        if topic not in said or pick.random() < 0.1:
            said[topic] = (pick.randrange(1921, 1979), pick.randrange(2, 90) * 100, pick.choice(_OPINIONS))
            year, crowns, opinion = said[topic]
            yield (
                f"Q: Tell me about {topic}.\nA: That was in {year}. It cost {crowns:,} crowns, and if you ask me,"
                f" {opinion}. {pick.choice(_REMARKS)}\n"
            )
        else:
            year, crowns, opinion = said[topic]
            yield (
                f"Q: You spoke of {topic} before. In which year was that, and what did it cost?\nA: In {year}, as I"
                f" said, and {crowns:,} crowns. I still hold that {opinion}.\n"
            )
