"""Send requests to the replica that holds their prefix.

Symptom: several replicas serve one traffic, and each hits far less than one cache of all of them would.

Cause: requests that begin alike go to different replicas, so each replica computes and keeps the same blocks.

Do:
- route by prefix: SGLang's router (cache-aware), llm-d, vLLM production-stack (prefix-aware, or by session)
- where clients are known, keep a client on one replica

Source: https://docs.sglang.ai/advanced_features/router.html https://docs.vllm.ai/projects/production-stack
"""

from __future__ import annotations

from kvlab.core.performance import share
from kvlab.workload.moves._seen import WORTH, Advice, Move, Seen


def _look(seen: Seen) -> Advice | None:
    found = seen.reuse.replicas if seen.reuse is not None else None
    if found is None:
        return None
    rates = {one.name: one for one in found.routing}
    spread, routed = rates["round robin"], rates["prefix-aware"]
    gain = routed.hit_rate - spread.hit_rate
    if gain < WORTH:
        return None
    return Advice(
        do=f"route requests to the one of the {found.count} replicas that holds their prefix",
        gain=f"{share(routed.hit_rate)} of the blocks hit, not {share(spread.hit_rate)} as when they go round robin",
        because=f"the busiest replica then gets {routed.busiest:.2f} times the mean load",
        saves=gain,
    )


MOVE = Move(_look)
