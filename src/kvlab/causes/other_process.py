"""Another process holds memory of the GPU.

Seen: the memory that was free when the engine started, by its own line, is less than the GPU has, and less than the
plan leaves to others; the pool is smaller by about as much.
"""

from __future__ import annotations

from kvlab.causes._bytes import explained
from kvlab.core.cause import Case, Cause, Guess
from kvlab.core.check import Reason
from kvlab.core.units import GIB, gib

_OWN = GIB
"""What the driver and the engine's own context hold before anything is loaded."""


def _held(case: Case) -> tuple[float, str] | None:
    """Bytes that were taken before the start, and the line's numbers in words."""
    free, whole = case.observation.hint("free_at_start_bytes"), case.planned("gpu_memory")
    if free is None or whole is None or isinstance(free.value, str):
        return None
    stated = case.observation.hint("gpu_bytes")
    if stated is not None and not isinstance(stated.value, str):
        whole = round(stated.value)
    held = whole - free.value - (case.planned("others") or 0)
    smaller = "" if stated is not None else ", or it is a smaller GPU"
    if held <= _OWN or (case.pool_off() or 0) >= 0:
        return None
    return held, (
        f"{gib(free.value)} of the GPU's {gib(whole)} were free at the start: another process held {gib(held)}"
        f"{smaller}; stop that process, or plan beside it with --share {held / GIB:.1f}GiB"
    )


def _guesses(case: Case) -> tuple[Guess, ...]:
    found = _held(case)
    if found is None:
        return ()
    share = round(found[0] / GIB + (case.plan.ask.share_gib or 0), 2)
    return (Guess(changes={"share_gib": share}, text=found[1], stated=True),)


def _test(case: Case) -> Reason | None:
    found = _held(case)
    return None if found is None else explained(case, "other_process", -found[0], found[1], stated=True)


CAUSE = Cause(test=_test, guesses=_guesses)
