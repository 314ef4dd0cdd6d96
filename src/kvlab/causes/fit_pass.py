"""The fit pass cut the context.

Seen: "context size reduced from ... to ..." in llama-server's log. Without -c it shortens the context until everything
fits the device.
"""

from __future__ import annotations

from kvlab.core.cause import Case, Cause
from kvlab.core.check import Reason


def _test(case: Case) -> Reason | None:
    fitted, cells = case.observation.hint("fitted_context"), case.observation.get("n_ctx")
    if fitted is None or cells is None or fitted.value != cells.value or case.row("n_ctx") is None:
        return None
    tokens = float(fitted.value)
    text = (
        f"llama.cpp's fit pass cut the context to {tokens:,.0f} tokens, since more does not fit: plan with --context"
        f" {tokens:.0f}, or free memory"
    )
    return Reason(code="fit_pass", text=text, certainty="stated", explains=("n_ctx",))


CAUSE = Cause(engines=("llamacpp", "ollama"), test=_test)
