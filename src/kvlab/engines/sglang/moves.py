"""What makes more room on SGLang alone: a larger share than the one that it chooses by itself."""

from __future__ import annotations

import math

from kvlab.core.engine import Carved, Deployment
from kvlab.core.plan import Move
from kvlab.core.units import GIB
from kvlab.engines.sglang.arguments import FRACTION
from kvlab.engines.sglang.defaults import memory_mib, prefill_tokens
from kvlab.engines.sglang.versions import release

_MOST = 0.92
"""A larger share leaves less than the CUDA graphs of small models take."""


def moves(deployment: Deployment, carved: Carved) -> tuple[Move, ...]:
    """The least share that holds one request, where the default holds none, and what the default leaves room for."""
    ask, gpu, share, capacity = deployment.ask, deployment.gpu, deployment.share, carved.capacity
    own = ask.util is None and ask.pool_gib is None and ask.arg(FRACTION) is None
    request, pool = carved.kv.bytes_per_sequence, deployment.pool_bytes
    if gpu is None or share is None or capacity is None or not own or not request or not pool:
        return ()
    if capacity.longest_request_tokens >= carved.context:
        return ()
    least = math.ceil((share + (request - pool) / gpu.usable_bytes) * 100 + 0.5) / 100
    if least > _MOST:
        return ()
    gained = (least - share) * gpu.usable_bytes
    tokens = int(gained * capacity.tokens / pool) if capacity.tokens else None
    step = prefill_tokens(ask, memory_mib(gpu), release(ask))
    left = (1 - share) * gpu.usable_bytes / GIB
    text = (
        f"--util {least:g}, which holds one request: SGLang's own {share:g} leaves {left:.2f} GiB for CUDA graphs and"
        f" the activations of its prefill step of {step:,} tokens; a smaller --max-num-batched-tokens needs less of it"
    )
    return (Move(text, tokens),)
