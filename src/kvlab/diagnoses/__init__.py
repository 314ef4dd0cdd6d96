"""Verdicts on a server at work: one rule a file of this folder. The file's name is its code, its docstring its page."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from inspect import cleandoc

from kvlab.core.diagnosis import DiagnosisPage, Rule, Step
from kvlab.core.errors import BadInput, nearest

_PARTS = ["Conditions", "Cause", "Do", "Source"]


@cache
def codes() -> tuple[str, ...]:
    """Codes of all verdicts, in the order in which they are given when several hold."""
    with os.scandir(os.path.dirname(__file__)) as entries:
        files = [entry.name for entry in entries if entry.name.endswith(".py") and not entry.name.startswith("_")]
    names = [name.removesuffix(".py") for name in files]
    return tuple(sorted(names, key=lambda name: (_rule(name).precedence, name)))


def rule(code: str) -> Rule:
    """The rule of that name. Raises BadInput naming the nearest when there is none."""
    if code not in codes():
        raise BadInput(f"no verdict called {code!r}; {nearest(code, codes())}; kvlab diagnose --list shows all")
    return _rule(code)


def _rule(code: str) -> Rule:
    module = import_module(f"{__name__}.{code}")
    found = [value for value in vars(module).values() if isinstance(value, Rule)]
    if len(found) != 1:
        raise TypeError(f"{module.__name__} must hold exactly one Rule, it holds {len(found)}")
    return found[0]


@cache
def page(code: str) -> DiagnosisPage:
    """The verdict's page: the docstring of its file, in its parts. Raises BadInput like `rule`.

    Its first line is the title; paragraphs called Conditions (a list), Cause, Do (a list whose items each say Why,
    Expect and Verify) and Source follow.
    """
    found = rule(code)
    title, *paragraphs = cleandoc(import_module(f"{__name__}.{code}").__doc__ or "").split("\n\n")
    parts = dict(paragraph.split(":", 1) for paragraph in paragraphs)
    if list(parts) != _PARTS:
        raise TypeError(f"the page of {code} must have {', '.join(_PARTS)}, it has {', '.join(parts)}")
    return DiagnosisPage(
        code=code,
        title=title.rstrip("."),
        precedence=found.precedence,
        conditions=_items(parts["Conditions"]),
        cause=_line(parts["Cause"]),
        do=tuple(map(_step, _items(parts["Do"]))),
        source=tuple(parts["Source"].split()),
    )


def _items(text: str) -> tuple[str, ...]:
    return tuple(_line(item) for item in text.split("\n- ")[1:])


def _step(text: str) -> Step:
    do, rest = text.split(" Why: ")
    why, rest = rest.split(" Expect: ")
    expect, verify = rest.split(" Verify: ")
    return Step(do=do.rstrip("."), why=why.rstrip("."), expect=expect.rstrip("."), verify=verify.rstrip("."))


def _line(text: str) -> str:
    return " ".join(text.split())
