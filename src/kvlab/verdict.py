"""The verdict of a plan in words, and what would make more room, with the tokens that each move buys."""

from __future__ import annotations

from kvlab.core.engine import Carved, Deployment
from kvlab.core.plan import Alternative, Move, Verdict
from kvlab.core.units import size


def judge(
    deployment: Deployment, carved: Carved, alternatives: tuple[Alternative, ...], kv_flag: str, *, weights_known: bool
) -> Verdict:
    """Whether one request of the planned context fits, and what to change."""
    capacity, context, dtype = carved.capacity, carved.context, carved.kv.dtype
    pool = deployment.pool_bytes
    smaller = _smaller(alternatives, carved)
    if pool is not None and pool <= 0:
        return Verdict(
            "does_not_fit",
            "no room for a cache: weights and overhead take all the memory that the engine may claim",
            (
                Move("use a smaller or quantised model", None),
                Move("split it over more GPUs", None),
                Move("raise --util when nothing else runs on this GPU", None),
            ),
        )
    if capacity is None or (pool is None and deployment.ask.pool_gib is None):
        return _without_pool(deployment, carved, weights_known=weights_known)
    over = pool is not None and capacity.pool_bytes > pool
    if capacity.longest_request_tokens >= context and not over:
        return Verdict("fits", _fits_text(deployment, carved, smaller), _more_room(deployment, carved, smaller))
    holding = next((other for other in smaller if other.fits), None) if not over else None
    if holding is not None:
        text = (
            f"only {holding.kv_dtype} holds {context:,} tokens: {dtype} ends at {capacity.longest_request_tokens:,};"
            f" add --kv-dtype {holding.kv_dtype} (the engine's {kv_flag})"
        )
        return Verdict("fits_with_smaller_dtype", text, _more_room(deployment, carved, smaller))
    if over:
        text = f"the caches take {size(capacity.pool_bytes)} and only {size(pool or 0)} are free for them"
        return Verdict(
            "does_not_fit", text, (Move("lower --context or --parallel", None), *_dtype_moves(smaller, carved))
        )
    longest = capacity.longest_request_tokens
    text = (
        f"not even one request of {context:,} tokens fits: the pool of {size(capacity.pool_bytes)} ends at"
        f" {longest:,} tokens; shorten the context or take a larger GPU"
    )
    shorten = Move(f"lower --context to {longest:,}", None)
    return Verdict("does_not_fit", text, (shorten, *_more_room(deployment, carved, smaller)))


def _without_pool(deployment: Deployment, carved: Carved, *, weights_known: bool) -> Verdict:
    capacity = carved.capacity
    if capacity is not None:
        text = (
            f"the caches take {size(capacity.pool_bytes)}; without --gpu or --pool-gib it is unknown whether they fit"
        )
    elif deployment.gpu is None and deployment.ask.pool_gib is None:
        text = "no GPU and no pool given, so only costs are known; add --gpu NAME or --pool-gib X"
    elif not weights_known:
        text = "the weights are unknown, and with them the pool; add --weights-gib X or --pool-gib X"
    else:
        text = "the pool is known, but not how this engine divides it for this model (see the doubts)"
    return Verdict("unknown", text)


def _fits_text(deployment: Deployment, carved: Carved, smaller: list[Alternative]) -> str:
    capacity, users = carved.capacity, deployment.ask.users
    assert capacity is not None
    text = (
        f"the {carved.kv.dtype} cache holds the target context: {capacity.max_concurrency:.2f} requests of"
        f" {carved.context:,} tokens at once"
    )
    if users is not None and capacity.max_concurrency < users:
        text += f", not the {users} users asked for (the others wait)"
    best = next((other for other in smaller if (other.max_concurrency or 0) > capacity.max_concurrency), None)
    if best is not None:
        text += f"; {best.kv_dtype} buys concurrency ({best.max_concurrency:.2f})"
    return text


def _smaller(alternatives: tuple[Alternative, ...], carved: Carved) -> list[Alternative]:
    """Alternatives that hold more tokens, the mildest change first."""
    have = carved.capacity.tokens if carved.capacity else 0
    more = [other for other in alternatives if other.tokens is not None and other.tokens > have]
    return sorted(more, key=lambda other: other.tokens or 0)


def _dtype_moves(smaller: list[Alternative], carved: Carved) -> tuple[Move, ...]:
    have = carved.capacity.tokens if carved.capacity else 0
    return tuple(
        Move(f"--kv-dtype {other.kv_dtype} (check the answers first: kvlab quality)", (other.tokens or 0) - have)
        for other in smaller[:2]
    )


def _more_room(deployment: Deployment, carved: Carved, smaller: list[Alternative]) -> tuple[Move, ...]:
    moves = list(_dtype_moves(smaller, carved))
    ask, gpu, capacity = deployment.ask, deployment.gpu, carved.capacity
    util = deployment.share
    if gpu is not None and capacity is not None and util is not None and util < 0.95 and ask.pool_gib is None:
        gained = round((0.95 - util) * gpu.usable_bytes)
        per_token = capacity.pool_bytes / capacity.tokens if capacity.tokens else 0
        tokens = int(gained / per_token) if per_token else None
        moves.append(Move("--util 0.95, when the GPU serves nothing else (activation spikes need the rest)", tokens))
    return tuple(moves)
