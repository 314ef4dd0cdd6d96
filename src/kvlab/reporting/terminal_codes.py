"""The page of any code, and the list of all codes, on a terminal."""

from __future__ import annotations

from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from kvlab.codes import Found
from kvlab.core.diagnosis import DiagnosisPage
from kvlab.core.rule import CausePage, CodeInfo, Page, RuleList
from kvlab.reporting import words
from kvlab.reporting.terminal_diagnosis import verdict_page
from kvlab.reporting.terminal_parts import heading, note

_NAMED_BY = {
    "rule": "in the log of {engines} (kvlab explain LOG)",
    "verdict": "what a server is short of (kvlab diagnose)",
    "breaker": "what breaks a prefix (kvlab traffic)",
    "move": "what traffic says should be changed (kvlab traffic)",
    "cause": "why a log says something else than its plan (kvlab check)",
}
_ANYONE = "any engine"


def any_page(value: Found) -> RenderableType:
    """The page, and how the others of that code are asked for."""
    also = [note(f"that code has another page too: kvlab explain {other}") for other in value.others]
    if isinstance(value.page, DiagnosisPage):
        return Group(verdict_page(value.page), *also)
    engines = ", ".join(value.page.engines) or _ANYONE
    head = (
        Text.assemble((value.page.code, "bold"), f": {value.page.title}"),
        note(_NAMED_BY[value.kind].format(engines=engines)),
    )
    body = _cause(value.page) if isinstance(value.page, CausePage) else _rule(value.page)
    return Group(*head, *body, *also)


def _rule(value: Page) -> list[RenderableType]:
    return [
        Text(f"\nSymptom: {value.symptom}\nCause: {value.cause}\nDo, the cheapest first:"),
        *(Padding(Text(f"{at}. {words.plain(text)}"), (0, 0, 0, 2)) for at, text in enumerate(value.do, 1)),
        note("Source: " + " ".join(value.source)),
    ]


def _cause(value: CausePage) -> list[RenderableType]:
    settings = [Text(f"Settings: {', '.join(value.settings)}")] if value.settings else []
    engines = [note(f"tried on {', '.join(value.engines)}")] if value.engines else []
    return [Text(f"\nSeen: {value.seen}"), *settings, *engines]


def code_list(value: RuleList) -> RenderableType:
    """Codes and titles, by what names them."""
    rules = [CodeInfo(kind="rule", code=rule.code, title=rule.title) for rule in value.rules]
    every = [*rules, *value.others]
    width = max(len(one.code) for one in every)
    parts: list[RenderableType] = []
    for kind, group in groupby(every, key=lambda one: one.kind):
        grid = Table.grid(Column(width=width, style="bold"), Column(overflow="fold"), padding=(0, 2, 0, 0))
        for one in group:
            grid.add_row(Text(one.code), Text(one.title))
        parts += (heading(_NAMED_BY[kind].format(engines=_ANYONE)), grid)
    return Group(*parts, note(f"{len(every)} codes; kvlab explain CODE prints the page of one"))
