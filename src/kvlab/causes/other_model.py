"""The log is of another model.

Seen: the name that the engine was started with is not the plan's, and the weights or the layers differ too.
"""

from __future__ import annotations

import re

from kvlab.core.cause import Case, Cause
from kvlab.core.check import Reason


def _test(case: Case) -> Reason | None:
    named = case.observation.setting("model")
    if named is None or not isinstance(named.value, str) or case.plan.source.kind not in ("hub", "folder"):
        return None
    ours, theirs = _plain(case.plan.source.name), _plain(named.value)
    differs = any(row.name.startswith("weights_") or row.name.endswith("_layers") for row in case.differing)
    if not differs or ours in theirs or theirs in ours:
        return None
    text = f"the log is of {named.value}, the plan of {case.plan.source.name}"
    return Reason(code="other_model", text=text, certainty="possible")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.rstrip("/").rpartition("/")[2].lower())


CAUSE = Cause(test=_test)
