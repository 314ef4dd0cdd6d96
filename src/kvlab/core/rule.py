"""A symptom that a log can show: the lines that show it, what they mean, and what to do in order of cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

Certainty = Literal["certain", "likely", "possible"]
"""The line itself says it; several lines together say it; it explains a complaint that the log cannot show."""
Cost = Literal["setting", "trade", "machine"]
"""What the first remedy takes: a setting; context, concurrency or quality; another release, model or machine."""
Stage = Literal["", "loading", "loaded", "sized", "serving"]
"""How far the start has come when a line is written; "" when no earlier line tells."""
SYMPTOM = "symptom"


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that count for a rule. Those named "symptom" make the finding; others only tell of its circumstances."""

    pattern: re.Pattern[str]
    """What a line holds; its named groups are the numbers that the advice states."""
    name: str = SYMPTOM
    engines: tuple[str, ...] = ()
    """Engines that write such lines; none: any may, since a library that they share does."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One line that a sign matched."""

    line: str
    """As it was read, or the part of a very long one; it may hold control characters."""
    number: int
    at: int = 0
    """Where in the line the sign begins."""
    stage: Stage = ""
    groups: Mapping[str, str] = {}
    engine: str | None = None
    """The engine that wrote it, when the sign tells."""
    writers: tuple[str, ...] = ()
    """Engines of which one wrote it; none: any may have."""

    def number_of(self, group: str) -> float | None:
        """The number in a named group, without its thousands separators; None when the line does not state it."""
        text = (self.groups.get(group) or "").replace(",", "")
        try:
            return float(text)
        except ValueError:
            return None


class Tally(msgspec.Struct, kw_only=True):
    """How often a sign was seen. `longest` counts hits that no other sign of the rule interrupted."""

    first: Hit
    last: Hit
    count: int = 1
    running: int = 1
    longest: int = 1


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one log shows of one rule."""

    engine: str | None
    tallies: Mapping[str, Tally]
    ended: Stage
    """How far the start had come when the log ended."""

    @property
    def first(self) -> Hit:
        """The first line that shows the symptom."""
        return self.tallies[SYMPTOM].first

    @property
    def last(self) -> Hit:
        """The last line that shows the symptom."""
        return self.tallies[SYMPTOM].last

    def count(self, sign: str = SYMPTOM) -> int:
        """How many lines the sign matched."""
        return self.tallies[sign].count if sign in self.tallies else 0

    def longest(self, sign: str = SYMPTOM) -> int:
        """How many lines of the sign came with no other sign of the rule between them."""
        return self.tallies[sign].longest if sign in self.tallies else 0


class Advice(msgspec.Struct, frozen=True):
    """Why it happened and what to do, cheapest first, with the numbers that the log states."""

    why: str
    do: tuple[str, ...]

    def replaced(self, why: str, *first: str, drop: int = 0) -> Advice:
        """This advice with another reason, and `first` in the place of its first `drop` remedies."""
        return Advice(why, (*first, *self.do[drop:]))


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One symptom. Its file's name is its code; its file's docstring is its page, which says why and what to do."""

    certainty: Certainty = "certain"
    cost: Cost
    signs: tuple[Sign, ...] = ()
    failures: tuple[str, ...] = ()
    """Codes of the engines' own failures (errors.py) whose lines show this symptom, beside those of the same code."""
    stages: tuple[Stage, ...] = ()
    """How far the start must have come for a line to count; none: it counts at any time."""
    least: int = 1
    """Lines that make a finding."""
    advise: Callable[[Case, Advice], Advice | None] | None = None
    """(case, what the page says) -> advice with the log's numbers; None when this is no symptom after all."""
    yields_to: tuple[str, ...] = ()
    """Codes of findings that say the same better: with one of them, this is left out."""
    consequence: bool = False
    """Whether it only says that something went wrong: left out when another finding says what."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A symptom found: its first line, how many lines show it, why, and what to do, cheapest first."""

    code: str
    title: str
    certainty: Certainty
    line: str
    line_number: int
    count: int
    engine: str | None
    why: str
    do: tuple[str, ...]
    recovered_line: int | None = None
    """Where a later start of the same log serves; None when none does."""


class Explain(msgspec.Struct, frozen=True, kw_only=True):
    """What a log shows: findings, the most certain and cheapest first; those of earlier starts come last.

    None is no proof of health.
    """

    schema: Literal["kvlab/explain@1"] = "kvlab/explain@1"
    engine: str | None
    lines: int
    findings: tuple[Finding, ...]


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A rule's page, as `kvlab explain CODE` shows it."""

    schema: Literal["kvlab/rule@1"] = "kvlab/rule@1"
    code: str
    title: str
    symptom: str
    cause: str
    do: tuple[str, ...]
    """Cheapest first."""
    source: tuple[str, ...]
    """Addresses where it was seen or explained."""
    engines: tuple[str, ...] = ()
    """Engines whose lines it knows by name; none: lines that any engine may print."""


class CausePage(msgspec.Struct, frozen=True, kw_only=True):
    """The page of a cause that `kvlab check` names, as `kvlab explain CODE` shows it."""

    schema: Literal["kvlab/cause@1"] = "kvlab/cause@1"
    code: str
    title: str
    seen: str
    settings: tuple[str, ...] = ()
    """Settings whose stated difference is this cause."""
    engines: tuple[str, ...] = ()
    """Engines that it is tried on; none: all."""


class CodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A code that is no rule's."""

    kind: str
    """verdict (kvlab diagnose), cause (kvlab check), breaker or move (kvlab traffic)."""
    code: str
    title: str


class RuleList(msgspec.Struct, frozen=True, kw_only=True):
    """Every rule, by code, and the codes of all other pages."""

    schema: Literal["kvlab/rules@1"] = "kvlab/rules@1"
    rules: tuple[Page, ...]
    others: tuple[CodeInfo, ...] = ()
