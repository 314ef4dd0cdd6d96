"""The search for the causes of one comparison: settings that the log states, those that it may have, arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from kvlab import causes, engines
from kvlab.core.cause import GUESSES, Case, Cause, Changes, Guess
from kvlab.core.check import Certainty, Check, CheckRow, Reason
from kvlab.core.follows import follows, pool_off, stated_pool
from kvlab.core.observation import Observation, Value
from kvlab.core.plan import Plan
from kvlab.reasons.context import other_context
from kvlab.reasons.differing import Differing, differing, option, speaker, told
from kvlab.reasons.replan import Replanner, alike

_DIGITS = 0.02
"""Width of a row's range, as a part of it, that the unprinted digits of a pool can make; an estimate's is wider."""
_SUREST_FIRST = ("exact", "stated", "possible")


class _Try(NamedTuple):
    """A guess that makes rows agree."""

    code: str
    guess: Guess
    gained: set[str]


class Search:
    """The causes of one comparison."""

    def __init__(self, found: Check, plan: Plan, observation: Observation, again: Replanner | None) -> None:
        self.found, self.plan, self.observation, self.again = found, plan, observation, again
        self.who = speaker(observation)
        self.differing = tuple(row for row in found.rows if row.verdict == "differs")
        self.names = frozenset(row.name for row in self.differing)
        stated = stated_pool(observation)
        self.pool = frozenset(stated[1] if stated is not None else ())
        """The rows that state the pool."""
        self.shares = follows(plan, observation, found.rows)
        self.settings = differing(plan, observation)
        self.context = other_context(plan, found.rows)
        self.remarks: list[str] = []
        self.needed: list[Differing] = []
        """The settings without which fewer rows would agree."""

    def check(self, missing: str) -> Check:
        """The comparison with reasons and remarks."""
        reasons, left = self._stated()
        if left and self.again is not None:
            reasons, left = self._guessed(self._case(left), reasons, left)
        tested = self._tested(self._case(left))
        # What arithmetic shows of a setting counts more than that it differs.
        shown = {reason.code for reason in tested}
        reasons = [reason for reason in reasons if not (reason.setting and reason.code in shown)]
        known = {reason.code for reason in reasons}
        reasons += [reason for reason in tested if reason.code not in known]
        reasons.sort(key=lambda reason: (_SUREST_FIRST.index(reason.certainty), -len(reason.explains)))
        explained = {name for reason in reasons for name in reason.explains}
        if self.again is None and self.differing:
            self.remarks.append(f"the plan was not made again with the {self.who}'s settings: {missing}")
        if not reasons or self.names - explained:
            self.remarks += self._untold(reasons, explained)
        of_context = [self.context.remark] if self.context is not None and not explained else []
        rows = tuple(self._row(row, reasons) for row in self.found.rows)
        remarks = (*of_context, *self.remarks, *self.found.remarks)
        return msgspec.structs.replace(self.found, rows=rows, causes=tuple(reasons), remarks=remarks)

    def _case(self, left: Iterable[str]) -> Case:
        still = set(left)
        return Case(
            plan=self.plan,
            observation=self.observation,
            differing=self.differing,
            open=tuple(row for row in self.differing if row.name in still),
            shares=self.shares,
        )

    def _stated(self) -> tuple[list[Reason], set[str]]:
        """Reasons that a line states, and the names of the rows that they leave unexplained."""
        if self.again is None:
            # What one of the two leaves to the engine's default may well be what the other states.
            both = [item for item in self.settings if item.planned is not None and item.setting.value is not None]
            return [self._unproven(item) for item in both if item.code != "engine_version"], set(self.names)
        useful = [item for item in self.settings if self.again.rows(_changes([item])) is not None]
        self.needed = self._fewest(useful) if self._agreeing(_changes(useful)) else []
        needed = _changes(self.needed)
        whole = bool(needed) and self._whole(needed)
        reasons = [self._reason(item, whole) for item in self.needed]
        if whole:
            self._with_that(needed)
        left = set(self.names)
        if needed:
            left -= self._agreeing(needed)
        named = {item.code for item in self.needed}
        others = [item for item in self.settings if item.code not in named]
        reasons += [self._possible(item) for item in others if self._counts(item)]
        reasons += [self._short(item) for item in others if left and item in useful and self._moves(item, left)]
        return reasons, left

    def _fewest(self, useful: list[Differing]) -> list[Differing]:
        """The settings without those that make no further row agree, or keep rows from agreeing."""
        needed = useful
        for item in useful:
            others = [other for other in needed if other is not item]
            agreeing, without = self._agreeing(_changes(needed)), self._agreeing(_changes(others))
            if without >= agreeing or len(without) > len(agreeing):
                needed = others
        return needed

    def _moves(self, item: Differing, left: set[str]) -> bool:
        """Whether a setting changes what is planned of a row that is not explained."""
        rows, before = self._rows(_changes([*self.needed, item])), self._rows(_changes(self.needed))
        return any(name in rows and name in before and rows[name].planned != before[name].planned for name in left)

    def _short(self, item: Differing) -> Reason:
        text = f"{told(item, self.who)}; that changes the numbers, and does not give the {self.who}'s"
        return Reason(code=item.code, text=text, certainty="possible")

    def _counts(self, item: Differing) -> bool:
        smaller = (pool_off(self.plan, self.observation, self.names) or 0) < 0
        return causes.cause(item.code).unplanned and smaller and not alike(item.setting.value, None)

    def _rows(self, changes: Changes) -> dict[str, CheckRow]:
        assert self.again is not None
        return {row.name: row for row in self.again.rows(changes) or ()}

    def _agreeing(self, changes: Changes) -> set[str]:
        """Rows that differ in the plan and agree with these changes. What follows the pool counts only with it."""
        rows = self._rows(changes)
        agree = {name for name in self.names if name in rows and rows[name].verdict == "agrees"}
        if self.pool & self.names and not self.pool & agree:
            as_planned = self._rows({})
            agree -= {name for name in agree if as_planned[name].verdict == "agrees"} if as_planned else set()
        return agree

    def _whole(self, changes: Changes) -> bool:
        """Whether every row agrees with these changes."""
        rows = self._rows(changes)
        return self._agreeing(changes) == self.names and all(row.verdict != "differs" for row in rows.values())

    def _with_that(self, changes: Changes) -> None:
        count = sum(row.verdict == "agrees" for row in self._rows(changes).values())
        what = "that" if len(changes) == 1 else f"those {len(changes)} settings"
        options = " ".join(option(name, value) for name, value in changes.items())
        stated = f"that the {self.who} states"
        rows = f"all {count} rows {stated} agree" if count > 1 else f"the row {stated} agrees"
        self.remarks.append(f"with {what}, {rows}: plan with {options}")

    def _reason(self, item: Differing, whole: bool) -> Reason:
        """The rows that would not agree without this setting."""
        others = [other for other in self.needed if other is not item]
        ours = self._agreeing(_changes(self.needed)) - self._agreeing(_changes(others))
        names = tuple(row.name for row in self.differing if row.name in ours)
        exact = whole and self._sharp(_changes(self.needed), ours)
        return Reason(
            code=item.code, text=told(item, self.who), certainty="exact" if exact else "stated", explains=names
        )

    def _sharp(self, changes: Changes, names: Iterable[str]) -> bool:
        """Whether a row of those agrees to the printed digits, and not only within the range of an estimate."""
        rows = self._rows(changes)
        return any(name in rows and _narrow(rows[name]) for name in names)

    def _unproven(self, item: Differing) -> Reason:
        ours = tuple(row.name for row in self.differing if item.code == "context" and self._of_context(row))
        certainty: Certainty = "stated" if ours else "possible"
        return Reason(code=item.code, text=told(item, self.who), certainty=certainty, explains=ours, setting=True)

    def _of_context(self, row: CheckRow) -> str | None:
        """What another context says of a row that differs as it makes it; None of all other rows."""
        return self.context.reason if self.context is not None and row.name in self.context.explains else None

    def _possible(self, item: Differing) -> Reason:
        return Reason(
            code=item.code, text=f"{told(item, self.who)}; what it takes is not planned", certainty="possible"
        )

    def _tested(self, case: Case) -> list[Reason]:
        found = [found for _, cause in self._causes() if cause.test and (found := cause.test(case))]
        sure = any(reason.certainty != "possible" for reason in found)
        return [reason for reason in found if not (sure and reason.certainty == "possible")]

    def _causes(self) -> list[tuple[str, Cause]]:
        every = [(code, causes.cause(code)) for code in causes.codes()]
        name = self.plan.engine.name
        return [(code, cause) for code, cause in every if not cause.engines or name in cause.engines]

    def _guessed(self, case: Case, reasons: list[Reason], left: set[str]) -> tuple[list[Reason], set[str]]:
        """Settings that no line states and that give the printed numbers, on top of those that one does."""
        best = _best(self._tries(case))
        if not best:
            return reasons, left
        alone = len({item.code for item in best}) == 1
        changes = {**_changes(self.needed), **best[0].guess.changes}
        sharp = self._sharp(changes, best[0].gained)
        if alone and self._whole(changes):
            if changes:
                self._with_that(changes)
            reasons = [_exact(reason) if reason.explains and sharp else reason for reason in reasons]
        guessed = [
            Reason(
                code=item.code,
                text=item.guess.text if alone else f"{item.guess.text} (another cause gives the same numbers)",
                certainty=("exact" if sharp else "stated") if alone else "possible",
                explains=tuple(row.name for row in self.differing if row.name in item.gained),
            )
            for item in (best[:1] if alone else best)
        ]
        return [*reasons, *guessed], left - best[0].gained

    def _tries(self, case: Case) -> list[_Try]:
        """The guesses with which further rows agree, and none that agreed differs."""
        stated = _changes(self.needed)
        before = self._agreeing(stated) if stated else set()
        found: list[_Try] = []
        for code, cause in self._causes():
            for guess in (cause.guesses(case) if cause.guesses else ())[:GUESSES]:
                changes = {**stated, **guess.changes}
                gained = self._agreeing(changes) - before
                # What only lies within the range of an estimate is no evidence where no line says so.
                known = guess.stated or self._sharp(changes, gained)
                if gained and known and not self._worse(changes, stated):
                    found.append(_Try(code, guess, gained))
        return found

    def _worse(self, changes: Changes, stated: Changes) -> bool:
        """Whether a row that agreed differs with these changes."""
        before = {name for name, row in self._rows(stated).items() if row.verdict == "agrees"}
        return any(row.verdict == "differs" and name in before for name, row in self._rows(changes).items())

    def _untold(self, reasons: list[Reason], explained: set[str]) -> list[str]:
        """What is not explained, and which line would tell."""
        open_rows = [row.name.replace("_", " ") for row in self.differing if row.name not in explained]
        silent = [reason for reason in reasons if not reason.explains]
        if any(item.setting or item.certainty != "possible" or causes.cause(item.code).taught for item in silent):
            return []
        lacks = []
        part = engines.stated_args(self.plan.engine.name)
        if self.observation.server and not self.observation.settings:
            lacks.append("a running server does not state the engine's arguments: check its log")
        elif not self.observation.settings:
            lacks.append(f"the log does not state the engine's arguments ({part.where})")
        if self.observation.version is None and part.releases:
            lacks.append("it does not name its release")
        if not self.observation.server and self.pool & self.names and self.observation.get("weights_bytes") is None:
            lacks.append("it does not state what the weights took")
        tells = f"; {'; '.join(lacks)}" if lacks else ""
        return [f"unexplained: {', '.join(open_rows)}: nothing that the {self.who} states accounts for it{tells}"]

    def _row(self, row: CheckRow, reasons: list[Reason]) -> CheckRow:
        if row.verdict != "differs":
            return row
        told_of = {name for reason in reasons if reason.certainty != "possible" for name in reason.explains}
        ours = tuple(
            reason
            for reason in reasons
            if row.name in reason.explains
            or not (reason.explains or (reason.setting and row.name in (told_of | self.pool)))
        )
        because = ours[0].text if ours else f"unexplained; {self._of_context(row) or row.likely_because}"
        return msgspec.structs.replace(
            row, follows_from=self.shares.get(row.name, ()), causes=ours, likely_because=because
        )


def _best(found: list[_Try]) -> list[_Try]:
    """Those that explain most rows; of them those that a line of the log states."""
    most = max((len(item.gained) for item in found), default=0)
    best = [item for item in found if len(item.gained) == most]
    return [item for item in best if item.guess.stated] or best


def _narrow(row: CheckRow) -> bool:
    """Whether a row was planned exactly, but for the digits that the log leaves out of the pool."""
    if row.low is None or row.high is None or not isinstance(row.planned, int | float):
        return True
    return row.high - row.low <= _DIGITS * abs(row.planned)


def _exact(reason: Reason) -> Reason:
    return msgspec.structs.replace(reason, certainty="exact")


def _changes(items: Iterable[Differing]) -> dict[str, Value]:
    return {item.setting.name: item.setting.value for item in items}
