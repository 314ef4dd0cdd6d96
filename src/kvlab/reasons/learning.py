"""Whether --learn would keep what a cause says a start took: only then is it offered."""

from __future__ import annotations

import msgspec

from kvlab import calibration
from kvlab.core.check import Check, CheckRow, Reason
from kvlab.core.observation import Observation
from kvlab.core.plan import Plan

_CODE = "overhead_estimate"
_OFFER = "; kvlab check --learn keeps it for the next plan"


def with_offer(check: Check, plan: Plan, observation: Observation) -> Check:
    """The comparison, with the offer behind the cause that --learn is for, where it would not refuse the log."""
    one = next((reason for reason in check.causes if reason.code == _CODE), None)
    if one is None or not calibration.would_learn(plan, observation, check):
        return check
    other = msgspec.structs.replace(one, text=one.text + _OFFER)
    rows = tuple(_row(row, one, other) for row in check.rows)
    return msgspec.structs.replace(check, causes=_exchanged(check.causes, one, other), rows=rows)


def _exchanged(reasons: tuple[Reason, ...], one: Reason, other: Reason) -> tuple[Reason, ...]:
    return tuple(other if reason == one else reason for reason in reasons)


def _row(row: CheckRow, one: Reason, other: Reason) -> CheckRow:
    because = other.text if row.likely_because == one.text else row.likely_because
    return msgspec.structs.replace(row, causes=_exchanged(row.causes, one, other), likely_because=because)
