"""Have a fifth of the pool to spare at the peak.

Symptom: at the peak the requests at once take more than four fifths of the pool, or more than all of it.

Cause: a pool that is full takes blocks from requests that run, and computes them again; arrivals that come closer
together than in the trace then find no room at all.

Do:
- store the cache in a smaller dtype, where the model's quality allows it (vLLM: --kv-cache-dtype fp8)
- limit the context, where long requests may be refused (vLLM: --max-model-len)
- shorten prompts before they are sent: fewer documents, fewer examples, a shorter history
- give the cache more memory: another GPU, or a larger one

Source: https://docs.vllm.ai/en/latest/configuration/optimization.html
"""

from __future__ import annotations

from kvlab.core.performance import share
from kvlab.workload.moves._seen import Advice, Move, Seen


def _look(seen: Seen) -> Advice | None:
    found = seen.at_once
    if found is None or found.holds is None or not found.missing_tokens:
        return None
    first = next(move for move in found.moves if move.closes)
    needs = found.peak.high / (1 - found.wanted_spare)
    return Advice(
        do=first.do,
        gain=f"the pool then holds the peak of {found.peak.high:,.0f} requests with"
        f" {share(found.wanted_spare)} to spare",
        because=f"it holds {found.holds:,.1f} of the mean length and needs {needs:,.1f}",
    )


MOVE = Move(_look)
