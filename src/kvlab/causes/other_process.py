"""Another process holds memory of the GPU.

Seen: the memory that was free when the engine started, by its own line, is less than the GPU has, and less than the
plan leaves to others; the pool is smaller by about as much.
"""

from __future__ import annotations

from kvlab.causes._bytes import explained
from kvlab.core.cause import Case, Cause
from kvlab.core.check import Reason
from kvlab.core.units import GIB, gib

_OWN = GIB
"""What the driver and the engine's own context hold before anything is loaded."""


def _test(case: Case) -> Reason | None:
    free, whole = case.observation.hint("free_at_start_bytes"), case.planned("gpu_memory")
    if free is None or whole is None or isinstance(free.value, str):
        return None
    held = whole - free.value - (case.planned("others") or 0)
    if held <= _OWN or (case.pool_off() or 0) >= 0:
        return None
    text = f"{gib(free.value)} of the GPU's {gib(whole)} were free at the start: another process held {gib(held)}"
    more = f"{text}; stop it, or plan beside it with --share {held / GIB:.1f}GiB"
    return explained(case, "gpu_memory", -held, more, stated=True)


CAUSE = Cause(test=_test)
