"""What breaks a prefix: one cause a file of this folder. The file's name is its code, its docstring its page."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import cleandoc
from pathlib import Path

from kvlab.core.breaker import Cause
from kvlab.core.errors import BadInput, nearest
from kvlab.core.rule import Page

__all__ = ["causes", "page"]


@cache
def causes() -> dict[str, Cause]:
    """Every cause by its code, those that explain a difference best first."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    found = {name: vars(import_module(f"{__name__}.{name}")) for name in names}
    known = {
        name: next(value for value in values.values() if isinstance(value, Cause)) for name, values in found.items()
    }
    return dict(sorted(known.items(), key=lambda item: item[1].rank))


def page(code: str) -> Page:
    """The cause's page: title, Symptom, Cause, Do and Source. Raises BadInput for a code that is none."""
    if code not in causes():
        raise BadInput(f"no prefix breaker called {code!r}; {nearest(code, causes())}")
    title, *paragraphs = cleandoc(import_module(f"{__name__}.{code}").__doc__ or "").split("\n\n")
    parts = dict(paragraph.split(":", 1) for paragraph in paragraphs)
    return Page(
        code=code,
        title=title.rstrip("."),
        symptom=" ".join(parts["Symptom"].split()),
        cause=" ".join(parts["Cause"].split()),
        do=tuple(" ".join(item.split()) for item in parts["Do"].split("\n- ")[1:]),
        source=tuple(parts["Source"].split()),
    )
