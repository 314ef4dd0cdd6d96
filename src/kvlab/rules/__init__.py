"""Symptoms in logs: one rule a file of this folder. The file's name is its code, its docstring its page."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from inspect import cleandoc

from kvlab.core.errors import BadInput, nearest
from kvlab.core.rule import Page, Rule
from kvlab.rules._stages import STAGES

__all__ = ["STAGES", "codes", "page", "rule"]


@cache
def codes() -> tuple[str, ...]:
    """Codes of all rules, sorted."""
    with os.scandir(os.path.dirname(__file__)) as entries:
        files = [entry.name for entry in entries if entry.name.endswith(".py") and not entry.name.startswith("_")]
    return tuple(sorted(name.removesuffix(".py") for name in files))


def rule(code: str) -> Rule:
    """The one Rule in the file of that name. Raises BadInput naming the nearest when there is none."""
    if code not in codes():
        raise BadInput(f"no rule called {code!r}; {nearest(code, codes())}; kvlab explain --list shows all")
    module = import_module(f"{__name__}.{code}")
    found = [value for value in vars(module).values() if isinstance(value, Rule)]
    if len(found) != 1:
        raise TypeError(f"{module.__name__} must hold exactly one Rule, it holds {len(found)}")
    return found[0]


@cache
def page(code: str) -> Page:
    """The rule's page: the docstring of its file, in its parts. Raises BadInput like `rule`.

    Its first line is the title; paragraphs called Symptom, Cause, Do (a list) and Source follow.
    """
    rule(code)
    title, *paragraphs = cleandoc(import_module(f"{__name__}.{code}").__doc__ or "").split("\n\n")
    parts = dict(paragraph.split(":", 1) for paragraph in paragraphs)
    if list(parts) != ["Symptom", "Cause", "Do", "Source"]:
        raise TypeError(f"the page of rule {code} must have Symptom, Cause, Do and Source, it has {', '.join(parts)}")
    return Page(
        code=code,
        title=title.rstrip("."),
        symptom=_line(parts["Symptom"]),
        cause=_line(parts["Cause"]),
        do=tuple(_line(item) for item in parts["Do"].split("\n- ")[1:]),
        source=tuple(parts["Source"].split()),
    )


def _line(text: str) -> str:
    return " ".join(text.split())
