"""What this traffic says should be changed: one move a file of this folder. The file's name is its code, its docstring
its page."""

from __future__ import annotations

from functools import cache

from kvlab import variants
from kvlab.core.errors import BadInput, nearest
from kvlab.core.rule import Page
from kvlab.core.traffic import TrafficMove
from kvlab.workload.moves._seen import Move, Seen, capacity, knee

__all__ = ["Seen", "capacity", "knee", "known", "moves", "page"]


@cache
def known() -> dict[str, Move]:
    """Every move by its code, sorted."""
    return variants.collected(__name__, Move)


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
    """The move's page. Raises BadInput for a code that is none."""
    if code not in known():
        raise BadInput(f"no move called {code!r}; {nearest(code, known())}")
    return variants.page(__name__, code)
