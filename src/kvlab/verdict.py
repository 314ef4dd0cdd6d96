"""The verdict of a plan in words, and what would make more room, with the tokens that each move buys."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kvlab.core.engine import Carved, Deployment
from kvlab.core.plan import MAY_FIT, NOT_HERE, Alternative, Ask, Capacity, LedgerLine, Move, Verdict, short_host
from kvlab.core.units import size


class Around(NamedTuple):
    """What a verdict rests on beside the carved deployment."""

    kv_flag: str
    """The engine's flag for the cache dtype."""
    pool: LedgerLine | None = None
    """The ledger's last line, which may be below zero."""
    low: Carved | None = None
    """The deployment at the low end of an estimated pool."""
    most: int | None = None
    """Requests that one replica's scheduler runs together; None: as many as the cache holds."""
    usual: int | None = None
    """The same without a flag, where the launch command raises it."""
    stranger: str | None = None
    """Why the engine may not run on the GPU at all."""
    moves: tuple[Move, ...] = ()
    """Moves that cost no quality: the use of free memory, and what only this engine has."""
    host: tuple[LedgerLine, ...] = ()
    """The ledger of the machine's own memory."""


def judge(deployment: Deployment, carved: Carved, alternatives: tuple[Alternative, ...], around: Around) -> Verdict:
    """Whether one request of the planned context fits, and what to change."""
    found = _judged(deployment, carved, alternatives, around)
    if around.stranger is not None and found.code in ("fits", "fits_with_smaller_dtype"):
        text = f"{MAY_FIT}{around.stranger}: {found.text.removeprefix(MAY_FIT)}"
        found = msgspec.structs.replace(found, text=text)
    short = short_host(around.host)
    if short is not None and found.code == "fits":
        needed, has = map(size, short)
        why = f"its {has} of memory do not hold the {needed} that the server takes of it"
        found = msgspec.structs.replace(found, text=f"{NOT_HERE}{why}: {found.text}")
    beside = _beside(deployment.ask)
    return msgspec.structs.replace(found, text=found.text + beside) if beside else found


def _beside(ask: Ask) -> str:
    """What other programs hold of the GPU, as the user states it."""
    stated = [f"{ask.share_gib:g} GiB"] if ask.share_gib else []
    stated += [f"{ask.share_fraction:.0%} of it"] if ask.share_fraction else []
    return f"; the GPU is shared: {' and '.join(stated)} left to other programs (--share)" if stated else ""


def _judged(deployment: Deployment, carved: Carved, alternatives: tuple[Alternative, ...], around: Around) -> Verdict:
    capacity, context, dtype = carved.capacity, carved.context, carved.kv.dtype
    pool = deployment.pool_bytes
    smaller = _smaller(alternatives, carved)
    if pool is not None and pool <= 0:
        return _no_room(deployment, around.pool)
    if capacity is None or (pool is None and deployment.ask.pool_gib is None):
        return _without_pool(deployment, carved)
    over = pool is not None and capacity.pool_bytes > pool
    holding = [other.kv_dtype for other in alternatives if other.fits and other.kv_dtype != dtype]
    if capacity.longest_request_tokens >= context and not over:
        return Verdict(
            "fits",
            _fits_text(deployment, carved, smaller, around),
            (*around.moves, *_more_room(deployment, carved, smaller)),
            holds_users=_holds_users(deployment, capacity, around.most),
        )
    if over:
        assert pool is not None
        return _over(deployment, carved, pool, holding)
    longest = capacity.longest_request_tokens
    if holding:
        only = "only " if len(holding) == 1 else ""
        text = (
            f"{dtype} ends at {longest:,} tokens and {only}{' or '.join(holding)} holds {context:,}:"
            f" add --kv-dtype {holding[0]} (the engine's {around.kv_flag})"
        )
        return Verdict("fits_with_smaller_dtype", text, (*_more_room(deployment, carved, smaller), *around.moves))
    text = (
        f"not even one request of {context:,} tokens fits: the pool of {size(capacity.pool_bytes)} ends at"
        f" {longest:,} tokens; shorten the context or take a larger GPU"
    )
    shorten = Move(f"lower --context to {longest:,}", None)
    moves = (shorten, *around.moves, *_more_room(deployment, carved, smaller))
    return Verdict("does_not_fit", text, moves)


def _no_room(deployment: Deployment, pool: LedgerLine | None) -> Verdict:
    """Weights and overhead alone are more than the engine may claim."""
    missing = -pool.bytes if pool is not None else 0
    over = f"{size(missing)} more than" if missing else "all the memory that"
    text = f"no room for a cache: weights and overhead take {over} the engine may claim"
    if pool is not None and pool.high > 0:
        text += f" (at the high end of the estimate {size(pool.high)} are left)"
    moves = [Move("use a smaller or quantised model", None), Move("split it over more GPUs", None)]
    gpu, share, most = deployment.gpu, deployment.share, deployment.most_share
    gained = 0.0
    if gpu is not None and share is not None and most is not None and deployment.share_of == "all":
        gained = (most - share) * gpu.usable_bytes
    if missing < gained:
        moves.append(Move("raise --util when nothing else runs on this GPU", None))
    return Verdict("does_not_fit", text, tuple(moves))


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


def _together(deployment: Deployment, capacity: Capacity, most: int | None) -> float:
    """Requests that run at once on all replicas, as the pool and the scheduler's limit allow."""
    each = capacity.max_concurrency if most is None else min(capacity.max_concurrency, most)
    return each * deployment.ask.dp


def _holds_users(deployment: Deployment, capacity: Capacity, most: int | None) -> bool | None:
    users = deployment.ask.users
    return None if users is None else _together(deployment, capacity, most) >= users


def _without_pool(deployment: Deployment, carved: Carved) -> Verdict:
    capacity = carved.capacity
    if capacity is not None:
        text = (
            f"the caches take {size(capacity.pool_bytes)}; without --gpu or --pool-gib it is unknown whether they fit"
        )
    elif deployment.gpu is None and deployment.ask.pool_gib is None:
        text = "no GPU and no pool given, so only costs are known; add --gpu NAME or --pool-gib X"
    elif deployment.weights is None:
        text = "the weights are unknown, and with them the pool; add --weights-gib X or --pool-gib X"
    else:
        text = "the pool is known, but not how this engine divides it for this model (see the doubts)"
    return Verdict("unknown", text)


def _fits_text(deployment: Deployment, carved: Carved, smaller: list[Alternative], around: Around) -> str:
    """How many requests run, the bad news first."""
    capacity = carved.capacity
    assert capacity is not None
    asked = deployment.ask.context
    shared = asked is not None and carved.context < asked
    what = f"requests of {carved.context:,}" if shared else "the target"
    many = f"{capacity.max_concurrency:.2f} requests of {carved.context:,} tokens at once"
    first = _first_words(deployment, carved, around)
    text = f"{first}the {carved.kv.dtype} cache holds {what + ' tokens' if shared else what + ' context'}: {many}"
    if shared:
        text += f" (the {asked:,} of --context are shared by the slots; --users gives each request all of them)"
    pool = deployment.pool_bytes
    if pool is not None and pool != capacity.pool_bytes and carved.kv.bytes_per_sequence:
        free = pool / carved.kv.bytes_per_sequence
        text += f" as asked for, and {size(pool)} are free, which hold {free:,.2f}"
    if deployment.ask.dp > 1:
        text += f" in each of {deployment.ask.dp} replicas"
    if around.most is not None and around.most < capacity.max_concurrency:
        default = "" if deployment.ask.max_num_seqs is not None else "the default of "
        text += f", of which {default}--max-num-seqs lets {around.most} run"
    if around.usual is not None:
        text += f" (it is {around.usual} by default, and the launch command raises it)"
    best = next((other for other in smaller if (other.max_concurrency or 0) > capacity.max_concurrency), None)
    if best is not None:
        text += f"; {best.kv_dtype} buys concurrency ({best.max_concurrency:.2f})"
    return text


def _first_words(deployment: Deployment, carved: Carved, around: Around) -> str:
    """What speaks against a plan that fits by its middle figures; "" when nothing does."""
    low, users = around.low, deployment.ask.users
    assert carved.capacity is not None
    if users is not None and not _holds_users(deployment, carved.capacity, around.most):
        runs = int(_together(deployment, carved.capacity, around.most))
        return f"one request, not the {users} users asked for ({runs} run at once, the others wait): "
    if low is None or low.capacity is None or around.pool is None:
        return ""
    over = low.capacity.pool_bytes > max(0, around.pool.low)
    if low.capacity.longest_request_tokens < carved.context or over:
        held = "" if over else f", which holds {low.capacity.longest_request_tokens:,} tokens"
        return f"{MAY_FIT}not at the low end of the pool's range{held}: "
    if users is not None and not _holds_users(deployment, low.capacity, around.most):
        runs = int(_together(deployment, low.capacity, around.most))
        return f"{MAY_FIT}at the low end of the pool's range {runs} of the {users} users: "
    return ""


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
