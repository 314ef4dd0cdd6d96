"""Limit the context to what the requests need.

Symptom: the longest request of the traffic is far shorter than the model's context, or a few requests are far longer
than all others.

Cause: engines check each request against the limit, and some reserve for it. A limit above all requests lets one
client take the whole cache; one that cuts the longest few lowers what a single request can take.

Do:
- set the limit to the percentile of the total length that may be refused above (vLLM: --max-model-len)
- where no request may be refused, set it to the longest one

Source: https://docs.vllm.ai/en/latest/configuration/conserving_memory.html
"""

from __future__ import annotations

from kvlab.core.performance import share
from kvlab.workload.moves._seen import Advice, Move, Seen


def _look(seen: Seen) -> Advice:
    limit = seen.limit
    whole = limit.holds_all or limit.recommended
    if not limit.truncated:
        return Advice(
            do=f"limit the context to {limit.recommended:,} tokens",
            gain="the engine reserves and checks for no longer request",
            because="no request of this trace is longer",
        )
    return Advice(
        do=f"choose the limit: {limit.recommended:,} tokens where long requests may be refused, else {whole:,}",
        gain=f"the shorter one lowers what a single request can take of the cache by"
        f" {share(1 - limit.recommended / whole)}",
        because="1 request lies between the two"
        if limit.truncated == 1
        else f"{limit.truncated:,} requests lie between the two",
    )


MOVE = Move(_look, free=True)
