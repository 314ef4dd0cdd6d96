"""The profiling run of a vision or audio tower takes memory.

Seen: "Encoder cache will be initialized with a budget of N tokens" in vLLM's log, while the plan counts no tower.
"""

from __future__ import annotations

from kvlab.core.cause import Case, Cause
from kvlab.core.check import Reason


def _test(case: Case) -> Reason | None:
    tokens = case.observation.hint("encoder_tokens")
    if tokens is None or case.planned("encoder") is not None or (case.pool_off() or 0) >= 0:
        return None
    text = f"the log profiles an encoder of {float(tokens.value):,.0f} tokens, which the plan does not count"
    return Reason(code="encoder_budget", text=text, certainty="possible")


CAUSE = Cause(engines=("vllm",), test=_test, taught=True)
