"""What this traffic says should be changed: one move a file of this folder. The file's name is its code, its docstring
its page."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import cleandoc
from pathlib import Path

from kvlab.core.errors import BadInput, nearest
from kvlab.core.rule import Page
from kvlab.core.traffic import TrafficMove
from kvlab.workload.moves._seen import Move, Seen

__all__ = ["Seen", "known", "moves", "page"]


@cache
def known() -> dict[str, Move]:
    """Every move by its code, sorted."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    found = {name: vars(import_module(f"{__name__}.{name}")) for name in names}
    return {name: next(value for value in values.values() if isinstance(value, Move)) for name, values in found.items()}


def moves(seen: Seen) -> tuple[TrafficMove, ...]:
    """The moves that apply: settings first, then by the share of the prompt tokens that each saves."""
    made = [(code, move.look(seen), move.free) for code, move in known().items()]
    found = [(free, advice.saves or 0.0, code, advice) for code, advice, free in made if advice is not None]
    found.sort(key=lambda item: (not item[0], -item[1], item[2]))
    return tuple(
        TrafficMove(code=code, do=advice.do, gain=advice.gain, because=advice.because, saves=advice.saves)
        for _, _, code, advice in found
    )


def page(code: str) -> Page:
    """The move's page: title, Symptom, Cause, Do and Source. Raises BadInput for a code that is none."""
    if code not in known():
        raise BadInput(f"no move called {code!r}; {nearest(code, known())}")
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
