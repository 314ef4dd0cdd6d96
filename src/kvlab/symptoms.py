"""What a log shows: every rule's signs sought in one pass, and what the rules make of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain

import msgspec

from kvlab import engines, rules
from kvlab.core.advice import fitting, narrowed
from kvlab.core.errors import BadInput, nearest
from kvlab.core.rule import SYMPTOM, Advice, Case, Explain, Finding, Hit, Page, Rule, RuleList, Stage, Tally
from kvlab.logs.scan import Scan
from kvlab.logs.source import blocks, opened
from kvlab.logs.text import plain, shown
from kvlab.logs.writer import recognised, refuse_document

_SOURCE = re.compile(r"\braise \w+\(|^\W*f?[\"'](?!\w+[\"']:)")
"""A line of Python that a traceback quotes: what it would have said stands below it."""
_STAGE_NAME = "stage"
_CERTAINTIES = ("certain", "likely", "possible")
_COSTS = ("setting", "trade", "machine")


class _Watch(msgspec.Struct, frozen=True, kw_only=True):
    """One pattern of one rule, or of a stage (then `code` is the stage)."""

    code: str
    sign: str
    pattern: re.Pattern[str]
    engine: str | None = None
    stages: tuple[Stage, ...] = ()


def explain(path: str, engine: str | None = None) -> Explain:
    """The findings in the log at `path` ("-": standard input), the most certain and cheapest first.

    Reads a log of any size in one pass and in bounded memory. Raises BadInput when there is no such file, it is
    empty or a document that kvlab wrote, or `engine` is none.
    """
    if engine is not None and engine not in engines.names():
        raise BadInput(f"no engine called {engine!r}; {nearest(engine, engines.names())}")
    with opened(path) as file:
        pieces = blocks(file, path)
        head = next(pieces, b"")
        if not head:
            raise BadInput(f"{path} is empty; start the engine with its output going to this file")
        refuse_document(head, path)
        scan = _Scan(engine or recognised(head), only=engine)
        for block in chain((head,), pieces):
            scan.feed(block)
    return Explain(engine=scan.engine, lines=scan.lines, findings=_in_order(scan.findings()))


def listing() -> RuleList:
    """Every rule, by code."""
    return RuleList(rules=tuple(page(code) for code in rules.codes()))


def page(code: str) -> Page:
    """The page of one rule. Raises BadInput naming the nearest code when there is none."""
    rule = rules.rule(code)
    symptoms = [sign for sign in rule.signs if sign.name == SYMPTOM]
    named = {name for sign in symptoms for name in sign.engines} | {
        name
        for name in engines.names()
        if any(failure.code in (code, *rule.failures) for failure in engines.failures(name).rules)
    }
    anyone = any(not sign.engines for sign in symptoms)
    return msgspec.structs.replace(rules.page(code), engines=() if anyone else tuple(sorted(named)))


@cache
def _all_rules() -> dict[str, Rule]:
    return {code: rules.rule(code) for code in rules.codes()}


@cache
def _watches() -> tuple[_Watch, ...]:
    """Every pattern there is: of the rules, of the engines' failures, and of the stages."""
    found = [
        _watch(code, sign.pattern, sign=sign.name, engine=name, stages=rule.stages if sign.name == SYMPTOM else ())
        for code, rule in _all_rules().items()
        for sign in rule.signs
        for name in sign.engines or (None,)
    ]
    found += [
        _watch(code, failure.pattern, engine=name, stages=_all_rules()[code].stages)
        for name in engines.names()
        for failure in engines.failures(name).rules
        for code in _of_failures()[failure.code]
    ]
    return (*found, *(_watch(stage, pattern, sign=_STAGE_NAME) for stage, pattern in rules.STAGES))


@cache
def _of_failures() -> dict[str, tuple[str, ...]]:
    """Codes of the engines' failures -> the rules whose symptom they are."""
    found: dict[str, list[str]] = {}
    for code, rule in _all_rules().items():
        for failure in {code, *rule.failures}:
            found.setdefault(failure, []).append(code)
    return {failure: tuple(codes) for failure, codes in found.items()}


def _watch(
    code: str,
    pattern: re.Pattern[str],
    *,
    sign: str = SYMPTOM,
    engine: str | None = None,
    stages: tuple[Stage, ...] = (),
) -> _Watch:
    return _Watch(code=code, sign=sign, pattern=pattern, engine=engine, stages=stages)


class _Scan:
    """One pass over a log. Memory: a block, and two lines for each sign that was seen."""

    def __init__(self, engine: str | None, only: str | None) -> None:
        self.engine = engine
        self._stage: Stage = ""
        self._start_line = self._serving_line = 0
        self._tallies: dict[str, dict[str, Tally]] = {}
        watched = (watch for watch in _watches() if only is None or watch.engine in (None, only))
        self._scan = Scan((watch.pattern, watch) for watch in watched)

    @property
    def lines(self) -> int:
        """How many lines were read."""
        return self._scan.lines

    def feed(self, block: bytes) -> None:
        """Reads one more block of the log."""
        for line in self._scan.feed(block):
            if not _SOURCE.search(line.text):
                self._line(line.text, line.number, line.sought)

    def _line(self, text: str, number: int, watches: tuple[_Watch, ...]) -> None:
        matched: dict[tuple[str, str], list[tuple[_Watch, re.Match[str]]]] = {}
        for watch in watches:
            if match := watch.pattern.search(text):
                matched.setdefault((watch.code, watch.sign), []).append((watch, match))
        for code, sign in matched:  # first: such a line may itself be a symptom
            if sign == _STAGE_NAME:
                self._reach(_stage(code), number)
        for (code, sign), found in matched.items():
            if sign == _STAGE_NAME:
                continue
            # The engine that wrote the log knows its lines best; the named groups of its sign are the ones to read.
            watch, match = next((pair for pair in found if pair[0].engine == self.engine), found[0])
            named = {other.engine for other, _ in found}
            engine = self.engine or (watch.engine if len(named) == 1 else None)
            writers = (engine,) if engine else () if None in named else tuple(sorted(filter(None, named)))
            if not watch.stages or self._stage in watch.stages:
                hit = Hit(
                    line=text,
                    number=number,
                    at=match.start(),
                    stage=self._stage,
                    groups={name: value for name, value in match.groupdict().items() if value is not None},
                    engine=engine,
                    writers=writers,
                )
                self._count(code, sign, hit)

    def _reach(self, stage: Stage, number: int) -> None:
        if stage == "":
            self._start_line = number
        elif stage == "serving" != self._stage:
            self._serving_line = number
        self._stage = stage

    def _count(self, code: str, sign: str, hit: Hit) -> None:
        tallies = self._tallies.setdefault(code, {})
        for name, other in tallies.items():
            if name != sign:
                other.running = 0
        tally = tallies.get(sign)
        if tally is None:
            tallies[sign] = Tally(first=hit, last=hit)
            return
        tally.last = hit
        tally.count += 1
        tally.running += 1
        tally.longest = max(tally.longest, tally.running)

    def findings(self) -> Iterator[Finding]:
        """What the rules make of it."""
        for code, tallies in self._tallies.items():
            rule = _all_rules()[code]
            if SYMPTOM not in tallies or tallies[SYMPTOM].count < rule.least:
                continue
            case = Case(engine=self.engine, tallies=tallies, ended=self._stage)
            if finding := _finding(code, rule, case):
                later = tallies[SYMPTOM].last.number < self._start_line < self._serving_line
                yield msgspec.structs.replace(finding, recovered_line=self._serving_line if later else None)


def _finding(code: str, rule: Rule, case: Case) -> Finding | None:
    said = rules.page(code)
    page = Advice(said.cause, said.do)
    advice = page if rule.advise is None else rule.advise(case, page)
    if advice is None:
        return None
    return Finding(
        code=code,
        title=said.title,
        certainty=rule.certainty,
        line=shown(case.first.line, case.first.at),
        line_number=case.first.number,
        count=case.count(),
        engine=case.first.engine,
        why=plain(advice.why),
        do=tuple(map(plain, _for_log(advice.do, case))),
    )


def _for_log(do: tuple[str, ...], case: Case) -> tuple[str, ...]:
    """The remedies of these lines, and of the engines that may have written them."""
    do = fitting(do, f"{case.first.line}\n{case.last.line}")
    titles = {name: engines.engine(name).title for name in engines.names()}
    own = [titles[name] for name in case.first.writers]
    return narrowed(do, own, titles.values()) if own else do


def _stage(code: str) -> Stage:
    return next(stage for stage, _ in rules.STAGES if stage == code)


def _in_order(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Causes before consequences: when a cause is known, what only says that something went wrong is left out."""
    every = [(finding, _all_rules()[finding.code]) for finding in found]
    # What an earlier start got over explains nothing of the last one.
    explain = [(finding, rule) for finding, rule in every if finding.recovered_line is None]
    codes = {finding.code for finding, _ in explain}
    caused = any(finding.certainty == "certain" and not rule.consequence for finding, rule in explain)
    kept = [
        (finding, rule)
        for finding, rule in every
        if not (rule.consequence and (caused or finding.recovered_line is not None))
        and not codes.intersection(rule.yields_to)
    ]

    def key(pair: tuple[Finding, Rule]) -> tuple[bool, int, int, int, str]:
        finding, rule = pair
        certainty, cost = _CERTAINTIES.index(finding.certainty), _COSTS.index(rule.cost)
        return finding.recovered_line is not None, certainty, cost, finding.line_number, finding.code

    return tuple(finding for finding, _ in sorted(kept, key=key))
