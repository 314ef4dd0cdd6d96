"""The estimate of what is neither weights nor cache was off.

Seen: a pool outside its planned range that nothing the log states accounts for. The constants of the estimate come from
public logs of other machines.
"""

from __future__ import annotations

from kvlab.causes._bytes import PRINTED
from kvlab.core.cause import Case, Cause
from kvlab.core.check import Reason
from kvlab.core.follows import parts
from kvlab.core.plan import LedgerLine
from kvlab.core.units import gib

_KNOWN = ("pool", "gpu_memory", "left_free", "others", "calibration")
_REST = 0.2
"""Share of a pool's difference that must be left unstated before the estimate is named."""


def _most_less(line: LedgerLine) -> int:
    """Bytes by which a line can take less than estimated: nothing takes less than nothing, nor weights than theirs."""
    return max(line.low, line.high) - line.bytes if line.name == "weights" else abs(line.bytes)


def _test(case: Case) -> Reason | None:
    off, stated = case.pool_off(), parts(case.plan, case.observation)
    if off is None:
        return None
    lines = [line for line in case.plan.ledger if line.kind == "estimated" and line.name not in (*_KNOWN, *stated)]
    rest = off - sum(stated.values())
    if not lines or abs(rest) < _REST * abs(off) or rest > PRINTED + sum(map(_most_less, lines)):
        return None
    names = ", ".join(line.name.replace("_", " ") for line in lines)
    text = (
        f"what the log does not state apart ({names}) took {gib(abs(rest))} {'less' if rest > 0 else 'more'} than"
        " estimated"
    )
    return Reason(code="overhead_estimate", text=text, certainty="possible", explains=case.after("pool"))


CAUSE = Cause(test=_test, taught=True)
