"""Every code that kvlab names in its answers, and its page: `kvlab explain CODE`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from kvlab import breakers, causes, diagnoses, rules, symptoms
from kvlab.core.diagnosis import DiagnosisPage
from kvlab.core.errors import BadInput, nearest
from kvlab.core.rule import CausePage, CodeInfo, Page, RuleList
from kvlab.workload import moves

AnyPage = Page | DiagnosisPage | CausePage


class _Kind(NamedTuple):
    """A folder of pages. `codes` may be asked for without loading what the folder holds."""

    codes: Callable[[], Iterable[str]]
    page: Callable[[str], AnyPage]


class Found(NamedTuple):
    """A page, what kind of page it is, and other pages of that code, as kind:code."""

    kind: str
    page: AnyPage
    others: tuple[str, ...]


def _kinds() -> dict[str, _Kind]:
    """By their names, in the order in which a code is looked for that is in several."""
    return {
        "rule": _Kind(rules.codes, symptoms.page),
        "verdict": _Kind(diagnoses.codes, diagnoses.page),
        "breaker": _Kind(breakers.causes, breakers.page),
        "move": _Kind(moves.known, moves.page),
        "cause": _Kind(causes.codes, _cause_page),
    }


def known() -> tuple[str, ...]:
    """All codes, sorted, each once."""
    return tuple(sorted({code for kind in _kinds().values() for code in kind.codes()}))


def find(name: str) -> Found:
    """The page of a code, or of kind:code. Raises BadInput that names the nearest code."""
    stated, _, code = name.rpartition(":")
    having = [kind for kind, value in _kinds().items() if code in value.codes()]
    kind = next((kind for kind in having if stated in ("", kind)), None)
    if kind is None:
        raise BadInput(f"no log and no code called {name!r}; {nearest(name, known())}; kvlab explain --list shows all")
    return Found(kind, _kinds()[kind].page(code), tuple(f"{other}:{code}" for other in having if other != kind))


def listing() -> RuleList:
    """The rules with their pages, and all other codes with their titles."""
    others = tuple(
        CodeInfo(kind=name, code=code, title=kind.page(code).title)
        for name, kind in _kinds().items()
        if name != "rule"
        for code in kind.codes()
    )
    return msgspec.structs.replace(symptoms.listing(), others=others)


def _cause_page(code: str) -> CausePage:
    title, seen = causes.page(code)
    found = causes.cause(code)
    return CausePage(code=code, title=title, seen=seen, settings=found.settings, engines=found.engines)
