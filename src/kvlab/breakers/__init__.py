"""What breaks a prefix: one cause a file of this folder. The file's name is its code, its docstring its page."""

from __future__ import annotations

from functools import cache

from kvlab import variants
from kvlab.core.breaker import Cause
from kvlab.core.errors import BadInput, nearest
from kvlab.core.rule import Page

__all__ = ["causes", "page"]


@cache
def causes() -> dict[str, Cause]:
    """Every cause by its code, those that explain a difference best first."""
    return dict(sorted(variants.collected(__name__, Cause).items(), key=lambda item: item[1].rank))


def page(code: str) -> Page:
    """The cause's page. Raises BadInput for a code that is none."""
    if code not in causes():
        raise BadInput(f"no prefix breaker called {code!r}; {nearest(code, causes())}")
    return variants.page(__name__, code)
