"""Why a log says something else than the plan: a cause, the case that it is tried on, and what it explains."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kvlab.core.check import CheckRow, Reason
from kvlab.core.follows import pool_off
from kvlab.core.observation import Observation, Value
from kvlab.core.plan import Plan

Changes = Mapping[str, Value]
"""Settings as a request names them (fields of Ask, or flags) -> their values."""
GUESSES = 8
"""Guesses that one cause may make: each is a plan."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and the log that differs from it."""

    plan: Plan
    observation: Observation
    differing: tuple[CheckRow, ...]
    """The rows that differ."""
    open: tuple[CheckRow, ...]
    """Those of them that no stated setting explains."""
    shares: Mapping[str, tuple[str, ...]]
    """Row -> the lines of the ledger that its difference follows from, the nearest first."""

    def row(self, name: str) -> CheckRow | None:
        """The row of that name, when it differs."""
        return next((row for row in self.differing if row.name == name), None)

    def after(self, line: str) -> tuple[str, ...]:
        """Names of the differing rows that follow from a line of the ledger, and from nothing nearer."""
        return tuple(row.name for row in self.differing if self.shares.get(row.name, ())[:1] == (line,))

    def planned(self, line: str) -> int | None:
        """Bytes that the ledger takes for a line (positive); None when it has no such line."""
        found = [item.bytes for item in self.plan.ledger if item.name == line]
        return abs(found[0]) if found else None

    def pool_off(self) -> float | None:
        """Bytes by which the log's pool is larger than planned; None when it agrees, is not stated or is explained."""
        return pool_off(self.plan, self.observation, {row.name for row in self.open})


class Guess(msgspec.Struct, frozen=True, kw_only=True):
    """A setting to be tried by arithmetic, since no argument that the log lists states it."""

    changes: dict[str, Value]
    text: str
    stated: bool = False
    """Whether a line of the log says so: then it goes before guesses that give the same numbers."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One cause. Its file's name is its code, its docstring its page."""

    settings: tuple[str, ...] = ()
    """Settings whose stated difference is this cause; the plan is made again with them."""
    engines: tuple[str, ...] = ()
    """Engines that it is tried on; none: all."""
    test: Callable[[Case], Reason | None] | None = None
    """What the log's own numbers show, by arithmetic; None when it is not this."""
    guesses: Callable[[Case], tuple[Guess, ...]] | None = None
    """Settings to try where nothing that is stated explains every row, the likeliest first."""
    taught: bool = False
    """Whether it is what a start takes of the memory: --learn keeps it, and refuses all others."""
    unplanned: bool = False
    """Whether its settings take memory that no plan counts: then they are named when the pool is smaller."""
