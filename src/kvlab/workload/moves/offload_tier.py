"""Add an offload tier below the GPU's pool.

Symptom: above 30 % of the prompt tokens were seen before, and the cache that would hold them is larger than the GPU's.

Cause: what was seen before comes back after longer than it stays in the GPU's memory. CPU memory, or a disk, holds it
until then; fetching it costs less than computing it while the link is fast enough.

Do:
- size the tier from the curve: the smallest cache that hits nine tenths of what an endless one does
- vLLM: LMCache or the built-in CPU offload; SGLang: HiCache; several machines: Mooncake's store
- weigh it with kvlab traffic --tiers gpu:N,cpu:N@BANDWIDTH --prefill-speed

Source: https://docs.lmcache.ai https://docs.sglang.ai/advanced_features/hicache.html https://kvcache-ai.github.io/Mooncake/
"""

from __future__ import annotations

from kvlab.core.performance import share
from kvlab.workload.moves._seen import WORTH, Advice, Move, Seen, capacity, knee, point_at

_LEAST = 0.3
"""Share of the prompt tokens from which caching and offload come before changes of the model."""


def _look(seen: Seen) -> Advice | None:
    if seen.reuse is None or seen.reuse.ideal.token_weighted < _LEAST:
        return None
    enough, ideal = knee(seen.reuse), seen.reuse.ideal
    now = None if seen.pool is None else point_at(seen.reuse, seen.pool)
    if now is not None and enough.token_hit_rate - now.token_hit_rate < WORTH:
        return None
    have = "" if now is None else f" (the pool of {capacity(now)} alone: {share(now.token_hit_rate)})"
    what = "where the GPU's pool is smaller than" if now is None else "below the pool, up to"
    return Advice(
        do=f"{what} {capacity(enough)}, add an offload tier of that size (LMCache, HiCache, Mooncake)",
        gain=f"{share(enough.token_hit_rate)} of the prompt tokens come from a cache, of {share(ideal.token_weighted)}"
        f" that could{have}",
        because=f"reuse above {share(_LEAST)}: caching and offload come before changes of the model",
        saves=enough.token_hit_rate - (0.0 if now is None else now.token_hit_rate),
    )


MOVE = Move(_look)
