"""CUDA graphs are taken out of the pool.

Seen: "Estimated CUDA graph memory" in vLLM's log, and a pool that is smaller by what that line has more than the plan.
vLLM counts graphs since 0.20 (its own line says 0.21); releases before that leave them room beside the pool.
"""

from __future__ import annotations

from kvlab.causes._bytes import explained
from kvlab.core.cause import Case, Cause
from kvlab.core.check import Reason
from kvlab.core.units import gib


def _test(case: Case) -> Reason | None:
    seen, planned = case.observation.get("graph_estimate_bytes"), case.planned("cuda_graphs") or 0
    if seen is None or isinstance(seen.value, str):
        return None
    more = seen.value - planned
    held = f"{gib(planned)} planned" if planned else "none planned"
    text = f"the log takes {gib(seen.value)} of CUDA graphs out of the pool, {held}"
    return explained(case, "graphs_counted", -more, text)


CAUSE = Cause(engines=("vllm",), test=_test, taught=True)
