"""Bound what a request keeps: eviction, a window, or a model with a smaller cache.

Symptom: prompts are long, and hardly a token of them was seen before: summaries of long documents, one after the other.

Cause: there is nothing to share, so neither a larger cache nor an offload tier saves prefill. What limits the number of
requests at a time is the cache of each one.

Do:
- choose a model whose cache is small or bounded: MLA, few KV heads, sliding windows, linear attention
- store the cache in 8 bits
- look at eviction of what the attention hardly reads, and judge its quality before it is used

Source: https://arxiv.org/abs/2309.17453 https://arxiv.org/abs/2306.14048
"""

from __future__ import annotations

from kvlab.core.performance import share
from kvlab.workload.moves._seen import Advice, Move, Seen

_FLAT = 0.1
"""Share of prompt tokens below which there is nothing to share."""
_LONG = 32 * 1024
"""Tokens of the median prompt from which the cache of one request is what costs."""


def _look(seen: Seen) -> Advice | None:
    if seen.reuse is None or seen.reuse.ideal.token_weighted >= _FLAT or seen.prompts.p50 < _LONG:
        return None
    return Advice(
        do="look at eviction, a bounded window or a model with a smaller cache (MLA, fewer KV heads)",
        gain="less cache a request; nothing from sharing",
        because=(
            f"half of the prompts are longer than {seen.prompts.p50:,.0f} tokens and only"
            f" {share(seen.reuse.ideal.token_weighted)} of their tokens were seen before"
        ),
    )


MOVE = Move(_look)
