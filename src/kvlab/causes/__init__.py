"""Causes of a log that differs from its plan: one a file of this folder. The file's name is its code."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from inspect import cleandoc

from kvlab.core.cause import Cause
from kvlab.core.errors import BadInput, nearest

__all__ = ["cause", "codes", "of_setting", "page"]


@cache
def codes() -> tuple[str, ...]:
    """Codes of all causes, sorted."""
    with os.scandir(os.path.dirname(__file__)) as entries:
        files = [entry.name for entry in entries if entry.name.endswith(".py") and not entry.name.startswith("_")]
    return tuple(sorted(name.removesuffix(".py") for name in files))


@cache
def cause(code: str) -> Cause:
    """The one Cause in the file of that name. Raises BadInput naming the nearest when there is none."""
    if code not in codes():
        raise BadInput(f"no cause called {code!r}; {nearest(code, codes())}")
    module = import_module(f"{__name__}.{code}")
    found = [value for value in vars(module).values() if isinstance(value, Cause)]
    if len(found) != 1:
        raise TypeError(f"{module.__name__} must hold exactly one Cause, it holds {len(found)}")
    return found[0]


@cache
def page(code: str) -> tuple[str, str]:
    """The first line of the file's docstring, and the rest of it. Raises BadInput like `cause`."""
    cause(code)
    title, _, text = cleandoc(import_module(f"{__name__}.{code}").__doc__ or "").partition("\n\n")
    return title.rstrip("."), " ".join(text.split())


@cache
def of_setting(name: str) -> str | None:
    """The code of the cause that a setting belongs to; None when it changes no cache."""
    return next((code for code in codes() if name in cause(code).settings), None)
