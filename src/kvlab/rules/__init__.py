"""Symptoms in logs: one rule a file of this folder. The file's name is its code, its docstring its page."""

from __future__ import annotations

from functools import cache

from kvlab import variants
from kvlab.core.errors import BadInput, nearest
from kvlab.core.rule import Page, Rule
from kvlab.rules._stages import STAGES

__all__ = ["STAGES", "codes", "page", "rule"]


def codes() -> tuple[str, ...]:
    """Codes of all rules, sorted."""
    return variants.names(__name__)


def rule(code: str) -> Rule:
    """The one Rule in the file of that name. Raises BadInput naming the nearest when there is none."""
    if code not in codes():
        raise BadInput(f"no rule called {code!r}; {nearest(code, codes())}; kvlab explain --list shows all")
    return variants.one(f"{__name__}.{code}", Rule)


@cache
def page(code: str) -> Page:
    """The rule's page: the docstring of its file. Raises BadInput like `rule`."""
    rule(code)
    return variants.page(__name__, code)
