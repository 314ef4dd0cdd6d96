"""The weights take more or less than planned.

Seen: the log states what was loaded, and the pool is smaller or larger by the same bytes.
"""

from __future__ import annotations

from kvlab.causes._bytes import explained
from kvlab.core.cause import Case, Cause
from kvlab.core.check import Reason
from kvlab.core.units import gib


def _test(case: Case) -> Reason | None:
    seen, planned = case.observation.get("weights_bytes"), case.planned("weights")
    if seen is None or planned is None or isinstance(seen.value, str):
        return None
    more = seen.value - planned
    text = f"the log's weights take {gib(seen.value)}, {gib(abs(more))} {'more' if more > 0 else 'less'} than planned"
    return explained(case, "weights", -more, text)


CAUSE = Cause(test=_test, taught=True)
