"""The estimate of what is neither weights nor cache was off.

Seen: a pool outside its planned range that nothing the log states accounts for. The constants of the estimate come from
public logs of other machines.
"""

from __future__ import annotations

from kvlab.core.cause import Case, Cause
from kvlab.core.check import Reason
from kvlab.core.follows import parts
from kvlab.core.units import gib

_KNOWN = ("pool", "gpu_memory", "left_free", "others", "calibration")
_REST = 0.2
"""Share of a pool's difference that must be left unstated before the estimate is named."""


def _test(case: Case) -> Reason | None:
    off, stated = case.pool_off(), parts(case.plan, case.observation)
    if off is None:
        return None
    lines = [
        line.name.replace("_", " ")
        for line in case.plan.ledger
        if line.kind == "estimated" and line.name not in (*_KNOWN, *stated)
    ]
    rest = off - sum(stated.values())
    if not lines or abs(rest) < _REST * abs(off):
        return None
    text = (
        f"what the log does not state apart ({', '.join(lines)}) took {gib(abs(rest))} {'less' if rest > 0 else 'more'}"
        " than estimated; kvlab check --learn keeps it for the next plan"
    )
    return Reason(code="overhead_estimate", text=text, certainty="possible", explains=case.after("pool"))


CAUSE = Cause(test=_test, taught=True)
