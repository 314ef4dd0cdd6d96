"""Fix what breaks the prefixes.

Symptom: prompts that are alike differ early: in a time, an id, a name, an order, or in spaces.

Cause: a prefix cache compares prompts from their first token. What changes at the front makes all that follows new, so
prompts that share nearly all of their text share nothing in the cache.

Do:
- move what changes behind what all prompts have in common; kvlab traffic --fix writes the log as it would then be
- sort tools, JSON keys and examples, and bring spaces into one form

Source: https://docs.vllm.ai/en/latest/design/prefix_caching.html
"""

from __future__ import annotations

from kvlab.core.performance import share
from kvlab.workload.moves._seen import Advice, Move, Seen


def _look(seen: Seen) -> Advice | None:
    broken = seen.breakers
    if broken is None or not broken.found:
        return None
    first = broken.found[0]
    return Advice(
        do="fix what breaks the prefixes of the prompts, before anything else is changed",
        gain=f"an endless cache hits {share(broken.fixed_hit_rate)} of the prompt tokens, not {share(broken.hit_rate)}",
        because=f"{first.title} stands in {first.where} of {first.group:,} requests that are otherwise alike",
        saves=broken.fixed_hit_rate - broken.hit_rate,
    )


MOVE = Move(_look)
