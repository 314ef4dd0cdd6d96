"""Folders of variants: each file holds one value of the folder's one type, and its docstring is its page.

The file is the registration: a new one is found by its being there. A name that begins with "_" is no variant.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import TypeVar

from kvlab.core.rule import Page

T = TypeVar("T")

_PARTS = ("Symptom", "Cause", "Do", "Source")


@cache
def names(package: str) -> tuple[str, ...]:
    """The names of a package's variants, sorted: files and folders."""
    with os.scandir(import_module(package).__path__[0]) as entries:
        found = [entry.name.removesuffix(".py") for entry in entries if entry.is_dir() or entry.name.endswith(".py")]
    return tuple(sorted(name for name in found if not name.startswith("_")))


def one(module: str, kind: type[T]) -> T:
    """The one value of a type that a module holds. Raises TypeError when it holds none, or several."""
    loaded = import_module(module)
    found = [value for value in vars(loaded).values() if isinstance(value, kind)]
    if len(found) != 1:
        raise TypeError(f"{module} must hold exactly one {kind.__name__}, it holds {len(found)}")
    return found[0]


def collected(package: str, kind: type[T]) -> dict[str, T]:
    """Every variant of a package by name, sorted. Raises TypeError like `one`."""
    return {name: one(f"{package}.{name}", kind) for name in names(package)}


def written(module: str, parts: tuple[str, ...] = _PARTS) -> tuple[str, dict[str, str]]:
    """The title of a module's docstring, and its paragraphs by the word before the colon.

    Raises TypeError when they are not `parts`, in that order.
    """
    from inspect import cleandoc

    title, *paragraphs = cleandoc(import_module(module).__doc__ or "").split("\n\n")
    found = dict(paragraph.partition(":")[::2] for paragraph in paragraphs)
    if tuple(found) != parts:
        raise TypeError(f"the page of {module} must have {', '.join(parts)}, it has {', '.join(found) or 'none'}")
    return title.rstrip("."), found


def page(package: str, code: str) -> Page:
    """The page of a variant: title, Symptom, Cause, Do and Source. Raises TypeError like `written`."""
    title, parts = written(f"{package}.{code}")
    return Page(
        code=code,
        title=title,
        symptom=line(parts["Symptom"]),
        cause=line(parts["Cause"]),
        do=items(parts["Do"]),
        source=tuple(parts["Source"].split()),
    )


def items(text: str) -> tuple[str, ...]:
    """The items of a list, each on one line."""
    return tuple(line(item) for item in text.split("\n- ")[1:])


def line(text: str) -> str:
    """Text that was folded over several lines, on one."""
    return " ".join(text.split())
