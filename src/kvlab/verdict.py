"""The verdict of a plan in words, and what would make more room, with the tokens that each move buys."""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Carved, Deployment
from kvlab.core.plan import Alternative, Ask, Capacity, Move, Verdict
from kvlab.core.units import size


def judge(
    deployment: Deployment, carved: Carved, alternatives: tuple[Alternative, ...], kv_flag: str, *, weights_known: bool
) -> Verdict:
    """Whether one request of the planned context fits, and what to change."""
    found = _judged(deployment, carved, alternatives, kv_flag, weights_known=weights_known)
    beside = _beside(deployment.ask)
    return msgspec.structs.replace(found, text=found.text + beside) if beside else found


def _beside(ask: Ask) -> str:
    """What other programs hold of the GPU, as the user states it."""
    stated = [f"{ask.share_gib:g} GiB"] if ask.share_gib else []
    stated += [f"{ask.share_fraction:.0%} of it"] if ask.share_fraction else []
    return f"; the GPU is shared: {' and '.join(stated)} left to other programs (--share)" if stated else ""


def _judged(
    deployment: Deployment, carved: Carved, alternatives: tuple[Alternative, ...], kv_flag: str, *, weights_known: bool
) -> Verdict:
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
    holding = [other.kv_dtype for other in alternatives if other.fits and other.kv_dtype != dtype]
    if capacity.longest_request_tokens >= context and not over:
        return Verdict(
            "fits",
            _fits_text(deployment, carved, smaller),
            _more_room(deployment, carved, smaller),
            holds_users=_holds_users(deployment, capacity),
        )
    if over:
        assert pool is not None
        return _over(deployment, carved, pool, holding)
    longest = capacity.longest_request_tokens
    if holding:
        only = "only " if len(holding) == 1 else ""
        text = (
            f"{dtype} ends at {longest:,} tokens and {only}{' or '.join(holding)} holds {context:,}:"
            f" add --kv-dtype {holding[0]} (the engine's {kv_flag})"
        )
        return Verdict("fits_with_smaller_dtype", text, _more_room(deployment, carved, smaller))
    text = (
        f"not even one request of {context:,} tokens fits: the pool of {size(capacity.pool_bytes)} ends at"
        f" {longest:,} tokens; shorten the context or take a larger GPU"
    )
    shorten = Move(f"lower --context to {longest:,}", None)
    return Verdict("does_not_fit", text, (shorten, *_more_room(deployment, carved, smaller)))


def _over(deployment: Deployment, carved: Carved, pool: int, holding: list[str]) -> Verdict:
    """An engine whose caches are asked for, and take more than is free."""
    capacity, one = carved.capacity, carved.kv.bytes_per_sequence
    assert capacity is not None
    text = f"the caches take {size(capacity.pool_bytes)} and only {size(pool)} are free for them"
    fewer = pool // one if one else 0
    together = "one request at a time" if fewer == 1 else f"{fewer} requests together"
    moves = [Move(f"run {together} instead of {capacity.max_concurrency:.0f}", None)] if fewer else []
    if holding:
        moves.insert(0, Move(f"--kv-dtype {holding[0]} (check the answers first: kvlab quality)", None))
        text += f"; stored as {holding[0]} they fit"
        return Verdict("fits_with_smaller_dtype", text, tuple(moves))
    moves.append(Move("lower --context", None))
    return Verdict("does_not_fit", text, tuple(moves))


def _together(deployment: Deployment, capacity: Capacity) -> float:
    """Requests that run at once on all replicas, as the pool and the scheduler's own limit allow."""
    limit = deployment.ask.max_num_seqs
    each = capacity.max_concurrency if limit is None else min(capacity.max_concurrency, limit)
    return each * deployment.ask.dp


def _holds_users(deployment: Deployment, capacity: Capacity) -> bool | None:
    users = deployment.ask.users
    return None if users is None else _together(deployment, capacity) >= users


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
    asked = deployment.ask.context
    shared = asked is not None and carved.context < asked
    what = f"requests of {carved.context:,}" if shared else "the target"
    many = f"{capacity.max_concurrency:.2f} requests of {carved.context:,} tokens at once"
    text = f"the {carved.kv.dtype} cache holds {what + ' tokens' if shared else what + ' context'}: {many}"
    if shared:
        text += f" (the {asked:,} of --context are shared by the slots; --users gives each request all of them)"
    if deployment.ask.dp > 1:
        text += f" in each of {deployment.ask.dp} replicas"
    limit = deployment.ask.max_num_seqs
    if limit is not None and limit < capacity.max_concurrency:
        text += f", of which --max-num-seqs lets {limit} run"
    if users is not None and _together(deployment, capacity) < users:
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
    util = None if _beside(ask) else deployment.share
    most = deployment.most_share if ask.pool_gib is None else None
    if gpu is not None and capacity is not None and util is not None and most is not None and util < most:
        free = deployment.share_of == "free"
        gained = round((most - util) * (capacity.pool_bytes / util if free else gpu.usable_bytes))
        per_token = capacity.pool_bytes / capacity.tokens if capacity.tokens else 0
        tokens = int(gained / per_token) if per_token else None
        moves.append(
            Move(f"--util {most:g}, when the GPU serves nothing else (activation spikes need the rest)", tokens)
        )
    return tuple(moves)
