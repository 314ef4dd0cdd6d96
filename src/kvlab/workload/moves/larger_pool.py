"""Make the GPU's pool larger.

Symptom: the hit rate still rises steeply at the size of the pool.

Cause: the pool evicts blocks that come back soon after. A cache dtype of half the bytes holds twice as many tokens in
the same memory; so does a model whose heads keep less of each token.

Do:
- store the cache in 8 bits where the model's quality allows it (vLLM: --kv-cache-dtype fp8)
- give the pool more of the GPU's memory, or spread the model over more GPUs
- choose a model that keeps less of each token (fewer KV heads, MLA)

Source: https://docs.vllm.ai/en/latest/features/quantization/quantized_kvcache.html
"""

from __future__ import annotations

from kvlab.core.performance import share
from kvlab.workload.moves._seen import WORTH, Advice, Move, Seen, capacity, point_at


def _look(seen: Seen) -> Advice | None:
    if seen.reuse is None or seen.pool is None:
        return None
    now, twice = point_at(seen.reuse, seen.pool), point_at(seen.reuse, 2 * seen.pool)
    gain = twice.token_hit_rate - now.token_hit_rate
    if gain < WORTH:
        return None
    return Advice(
        do="hold twice as many tokens: an 8-bit cache, more memory, or a model with a smaller cache a token",
        gain=f"{share(twice.token_hit_rate)} of the prompt tokens hit, not {share(now.token_hit_rate)}",
        because=f"the curve still rises at the pool of {capacity(now)}",
        saves=gain,
    )


MOVE = Move(_look)
