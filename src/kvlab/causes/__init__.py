"""Causes of a log that differs from its plan: one a file of this folder. The file's name is its code."""

from __future__ import annotations

from functools import cache

from kvlab import variants
from kvlab.core.cause import Cause
from kvlab.core.errors import BadInput, nearest

__all__ = ["cause", "codes", "of_setting", "page"]


def codes() -> tuple[str, ...]:
    """Codes of all causes, sorted."""
    return variants.names(__name__)


@cache
def cause(code: str) -> Cause:
    """The one Cause in the file of that name. Raises BadInput naming the nearest when there is none."""
    if code not in codes():
        raise BadInput(f"no cause called {code!r}; {nearest(code, codes())}")
    return variants.one(f"{__name__}.{code}", Cause)


@cache
def page(code: str) -> tuple[str, str]:
    """The title of the file's docstring, and what is seen of the cause. Raises BadInput like `cause`."""
    cause(code)
    title, parts = variants.written(f"{__name__}.{code}", ("Seen",))
    return title, variants.line(parts["Seen"])


@cache
def of_setting(name: str) -> str | None:
    """The code of the cause that a setting belongs to; None when it changes no cache."""
    return next((code for code in codes() if name in cause(code).settings), None)
