"""Keep prefix caching on, or expect nothing of it.

Symptom: a share of the prompt tokens was seen before, in a prompt that began the same way; or hardly any was.

Cause: chats repeat their history, and services repeat their instructions. An engine that keeps the blocks of finished
requests need not compute them again, as long as they are not evicted.

Do:
- leave it on where anything is shared (vLLM: on by default; SGLang: the radix cache)
- where nothing is shared, neither it nor an offload tier gives anything

Source: https://docs.vllm.ai/en/latest/design/prefix_caching.html
"""

from __future__ import annotations

from kvlab.core.performance import share
from kvlab.workload.moves._seen import WORTH, Advice, Move, Seen, capacity, knee


def _look(seen: Seen) -> Advice | None:
    if seen.reuse is None:
        return None
    ideal = seen.reuse.ideal
    if ideal.token_weighted < WORTH:
        return Advice(
            do="expect nothing from prefix caching or offload",
            gain=f"at most {share(ideal.token_weighted)} of the prompt tokens",
            because="hardly a prompt begins as an earlier one did",
        )
    enough = knee(seen.reuse)
    return Advice(
        do="keep prefix caching on",
        gain=f"up to {share(ideal.token_weighted)} of the prompt tokens need not be computed again",
        because=(
            f"{ideal.hit_tokens:,} of {seen.reuse.tokens:,} prompt tokens were seen before;"
            f" {share(enough.token_hit_rate)} with a cache of {capacity(enough)}"
        ),
        saves=ideal.token_weighted,
    )


MOVE = Move(_look)
