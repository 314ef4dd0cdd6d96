"""What a server is short of: the looks at it, the conditions that decide, and the verdict with its evidence.

Conditions are answered yes, no or unknown. A verdict needs every one of its conditions to be a yes: what was not seen
never counts for or against it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from kvlab.core.plan import Alternative, Move
from kvlab.core.scrape import Reading, Window, window
from kvlab.core.speed import Range, Turn

NOT_ENOUGH = "not_enough_evidence"
Confidence = Literal["firm", "tentative", "none"]
"""Rates and a series of looks say it; a single look, a mean or a rule of thumb says it; nothing does."""


class Objectives(msgspec.Struct, frozen=True, kw_only=True):
    """What 95 of 100 requests, and tokens, should stay below."""

    ttft_seconds: float = 2.0
    tpot_seconds: float = 0.05


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's plan says of one rank (bytes) and one replica (tokens). None: it does not say."""

    engine: str
    kv_dtype: str
    names: tuple[str, ...] = ()
    """What a server of the model may call it; empty where the plan's source tells no name."""
    replicas: int = 1
    stages: int = 1
    drafts: bool = False
    """Whether a step may make several tokens, so that the time per token is not that of a step."""
    experts: bool = False
    """Whether a token visits only some of the weights."""
    weights_bytes: int | None = None
    pool_bytes: int | None = None
    tokens: int | None = None
    token_bytes: int = 0
    bandwidth: float | None = None
    reached: Range | None = None
    """Share of the bandwidth that decoding reaches, from the least to the most that was measured."""
    prefill: Range | None = None
    """Prompt tokens a second of one replica."""
    compute_from: Turn | None = None
    most_requests: int | None = None
    """Requests that the scheduler runs together, where the plan sets it."""
    alternatives: tuple[Alternative, ...] = ()
    moves: tuple[Move, ...] = ()


class Scrape(msgspec.Struct, frozen=True, kw_only=True):
    """A line of what `kvlab diagnose URL --save FILE` writes: pages by path, `time` in seconds since 1970."""

    schema: Literal["kvlab/scrape@1"] = "kvlab/scrape@1"
    time: float
    engine: str
    pages: Mapping[str, str]


class Look(msgspec.Struct, frozen=True):
    """One scrape; `seconds` count from the first."""

    seconds: float
    reading: Reading


class Pool(msgspec.Struct, frozen=True):
    """What one engine of the server said at each look; `name` is empty where there is only one."""

    name: str
    looks: tuple[Mapping[str, float], ...]

    def seen(self, word: str) -> tuple[float, ...]:
        """The word's values, look by look, where it was seen."""
        return tuple(look[word] for look in self.looks if word in look)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the rules judge: looks in order of time, since the server's last start."""

    looks: tuple[Look, ...]
    objectives: Objectives = Objectives()
    plan: Planned | None = None
    reuse_possible: float | None = None
    """The share of prompt tokens that an endless cache would have held, by a trace of the traffic."""

    @property
    def last(self) -> Reading:
        """The newest reading."""
        return self.looks[-1].reading

    @property
    def window(self) -> Window | None:
        """From the first look to the last; None with one look."""
        first, last = self.looks[0], self.looks[-1]
        return window(first.reading, last.reading, last.seconds - first.seconds) if len(self.looks) > 1 else None

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Each engine of the server by itself: fields of different pools are never mixed."""
        names = list(self.last.pools)
        if not names:
            return (Pool("", tuple(look.reading.values for look in self.looks)),)
        return tuple(Pool(name, tuple(look.reading.pools.get(name, {}) for look in self.looks)) for name in names)


_SAME_POOL, _OTHER_POOL = 0.1, 2.0
"""By how much a plan's pool may differ from the server's; a factor from which it is another server's."""


def same_pool(plan: Planned, reading: Reading) -> bool | None:
    """Whether the server states the pool that the plan holds; None when one of them states none."""
    stated = reading.values.get("kv_tokens")
    return None if stated is None or plan.tokens is None else abs(stated - plan.tokens) <= _SAME_POOL * plan.tokens


def both_pools(plan: Planned, reading: Reading) -> str:
    """What to say where the server states another pool than the plan's."""
    stated = reading.values["kv_tokens"]
    return f"the plan of this server: it states {stated:,.0f} cache tokens, --plan holds {plan.tokens:,}"


def other_plan(plan: Planned, reading: Reading) -> str | None:
    """Why the plan is not this server's: another model's name with another pool, or a pool of another size.

    A server may serve a model under any name: one with the planned pool is the planned one.
    """
    if same_pool(plan, reading):
        return None
    served = sorted({name for line in reading.lines.values() for name in _MODEL.findall(line)})
    if served and plan.names and not any(_alike(one, name) for one in served for name in plan.names):
        return (
            f"the plan of this server: it serves {', '.join(served[:3])}, and --plan is for {plan.names[0]} (if that is"
            " one model, plan it with --engine-arg served-model-name=NAME)"
        )
    stated = reading.values.get("kv_tokens")
    if stated and plan.tokens and max(stated / plan.tokens, plan.tokens / stated) > _OTHER_POOL:
        return both_pools(plan, reading)
    return None


_MODEL = re.compile(r'\bmodel_name="((?:[^"\\]|\\.)+)"')


def _alike(one: str, other: str) -> bool:
    plain = ["".join(filter(str.isalnum, os.path.basename(name.rstrip("/")).casefold())) for name in (one, other)]
    return plain[0] in plain[1] or plain[1] in plain[0]


class Evidence(msgspec.Struct, frozen=True):
    """A number that a condition rests on, and what states it: a sample, or the two numbers and the seconds between."""

    metric: str
    value: float
    line: str


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One condition: `text` says what was found; `missing` what would answer it where `holds` is None."""

    text: str
    holds: bool | None
    evidence: tuple[Evidence, ...] = ()
    missing: str = ""
    sure: bool = True
    """False: a rule of thumb answers it, where a measurement or a plan could."""

    def denied(self) -> Condition:
        """The opposite condition, of the same evidence."""
        return msgspec.structs.replace(self, holds=None if self.holds is None else not self.holds)


Way = tuple[Condition, ...]
"""Conditions that must all hold."""


def all_hold(way: Iterable[Condition]) -> bool | None:
    """No when one does not hold, yes when all do, else unknown."""
    answers = [condition.holds for condition in way]
    return False if False in answers else None if None in answers else True


def any_holds(ways: Iterable[Way]) -> bool | None:
    """Yes when one way holds, no when none can, else unknown."""
    answers = [all_hold(way) for way in ways]
    return True if True in answers else None if None in answers else False


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """An intervention as a rule's page states it."""

    do: str
    why: str
    expect: str
    verify: str


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, why it helps, what to expect of it, and the metric or the command that tells whether it did."""

    rank: int
    do: str
    why: str
    expect: str
    verify: str


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict. Its file's name is its code, its file's docstring its page."""

    precedence: int
    """Of two verdicts that hold, the one with the lower number is given."""
    ways: Callable[[Case], tuple[Way, ...]]
    """Each a list of conditions that together make the verdict."""
    tailor: Callable[[Case, tuple[Step, ...]], tuple[Step, ...]] | None = None
    """The page's interventions in the order of this case, with its numbers; what cannot help is left out."""


class Other(msgspec.Struct, frozen=True):
    """A verdict that was not given, and the condition that decided it."""

    verdict: str
    holds: Literal["no", "unknown", "yes"]
    because: str


class Alert(msgspec.Struct, frozen=True):
    """A threshold over minutes, and whether it is passed."""

    name: str
    state: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a server, and what it rests on."""

    schema: Literal["kvlab/diagnose@1"] = "kvlab/diagnose@1"
    engine: str
    replicas: int
    """Engines with a pool of their own behind the page."""
    verdict: str
    title: str
    confidence: Confidence
    because: tuple[str, ...]
    """The conditions that hold, in words."""
    seconds: float | None
    """Between the first and the last look that were judged; None with one."""
    looks: int
    evidence: tuple[Evidence, ...]
    missing: tuple[str, ...]
    interventions: tuple[Intervention, ...]
    others: tuple[Other, ...]
    alerts: tuple[Alert, ...] = ()


class DiagnosisPage(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict's page, as `kvlab diagnose CODE` shows it."""

    schema: Literal["kvlab/diagnosis@1"] = "kvlab/diagnosis@1"
    code: str
    title: str
    precedence: int
    conditions: tuple[str, ...]
    cause: str
    do: tuple[Step, ...]
    source: tuple[str, ...]


class DiagnosisList(msgspec.Struct, frozen=True, kw_only=True):
    """Every verdict, the one that goes first first."""

    schema: Literal["kvlab/diagnoses@1"] = "kvlab/diagnoses@1"
    diagnoses: tuple[DiagnosisPage, ...]
