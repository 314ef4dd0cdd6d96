"""What makes more room on vLLM alone: fewer tokens in flight, for which windows keep room."""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Carved, Deployment
from kvlab.core.plan import Move
from kvlab.core.units import size
from kvlab.engines.vllm.carving import carving

_FEWER = 2048
"""vLLM's own default on small GPUs: prefill in steps of this size is still fast."""
_WORTH = 1.05


def moves(deployment: Deployment, carved: Carved) -> tuple[Move, ...]:
    """Smaller scheduler steps, where they make requests smaller by more than 5 %."""
    pool, capacity = deployment.pool_bytes, carved.capacity
    if not (deployment.layout.windowed or deployment.layout.pooled) or not pool or capacity is None:
        return ()
    now = carving(deployment, carved.context)
    if now.batched <= _FEWER or not now.groups:
        return ()
    ask = msgspec.structs.replace(deployment.ask, max_num_batched_tokens=_FEWER)
    then = carving(msgspec.structs.replace(deployment, ask=ask), carved.context)
    before, after = (plan.num_blocks(pool) / plan.request_blocks(carved.context) for plan in (now, then))
    if after < before * _WORTH:
        return ()
    saved = now.request_bytes(carved.context) - then.request_bytes(carved.context)
    text = (
        f"--max-num-batched-tokens {_FEWER} ({before:.2f} -> {after:.2f} requests at once): {size(saved)} of"
        f" a request are room that windows keep for {now.in_flight:,} tokens in flight, {now.batched:,}"
        f" a step instead of {_FEWER:,}; prefill of long prompts slows down"
    )
    return (Move(text, int((after - before) * carved.context)),)
