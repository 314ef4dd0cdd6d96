"""What causes share that account for a pool by bytes."""

from __future__ import annotations

from kvlab.core.cause import Case
from kvlab.core.check import Reason
from kvlab.core.units import GIB

PRINTED = 0.011 * GIB
"""By how much two numbers with two decimals of a GiB may be off together."""
_LARGE = 0.2
"""Share of a pool's difference from which a line that states other bytes is named for it."""


def explained(case: Case, code: str, change: float, text: str, *, stated: bool = False) -> Reason | None:
    """The cause `code`, which makes the pool larger by `change` bytes; None when that is little of the difference.

    `stated`: whether a line says so, and it counts although it is more than the difference.
    """
    off = case.pool_off()
    if off is None or change * off <= 0 or abs(change) < _LARGE * abs(off):
        return None
    exact = abs(change - off) <= PRINTED
    if not exact and not stated and abs(change) > 2 * abs(off):
        return None  # more than the difference: something else made up for it
    if exact:
        return Reason(code=code, text=text, certainty="exact", explains=case.after("pool"))
    return Reason(code=code, text=text, certainty="stated")
