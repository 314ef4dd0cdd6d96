"""Verdicts on a server at work: one rule a file of this folder. The file's name is its code, its docstring its page."""

from __future__ import annotations

from functools import cache

from kvlab import variants
from kvlab.core.diagnosis import DiagnosisPage, Rule, Step
from kvlab.core.errors import BadInput, nearest

_PARTS = ("Conditions", "Cause", "Do", "Source")


@cache
def codes() -> tuple[str, ...]:
    """Codes of all verdicts, in the order in which they are given when several hold."""
    return tuple(sorted(variants.names(__name__), key=lambda name: (_rule(name).precedence, name)))


def rule(code: str) -> Rule:
    """The rule of that name. Raises BadInput naming the nearest when there is none."""
    if code not in codes():
        raise BadInput(f"no verdict called {code!r}; {nearest(code, codes())}; kvlab diagnose --list shows all")
    return _rule(code)


def _rule(code: str) -> Rule:
    return variants.one(f"{__name__}.{code}", Rule)


@cache
def page(code: str) -> DiagnosisPage:
    """The verdict's page: the docstring of its file, in its parts. Raises BadInput like `rule`.

    Its first line is the title; paragraphs called Conditions (a list), Cause, Do (a list whose items each say Why,
    Expect and Verify) and Source follow.
    """
    found = rule(code)
    title, parts = variants.written(f"{__name__}.{code}", _PARTS)
    return DiagnosisPage(
        code=code,
        title=title,
        precedence=found.precedence,
        conditions=variants.items(parts["Conditions"]),
        cause=variants.line(parts["Cause"]),
        do=tuple(map(_step, variants.items(parts["Do"]))),
        source=tuple(parts["Source"].split()),
    )


def _step(text: str) -> Step:
    do, rest = text.split(" Why: ")
    why, rest = rest.split(" Expect: ")
    expect, verify = rest.split(" Verify: ")
    return Step(do=do.rstrip("."), why=why.rstrip("."), expect=expect.rstrip("."), verify=verify.rstrip("."))
