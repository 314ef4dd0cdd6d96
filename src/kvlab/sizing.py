"""A plan asked backwards: which GPUs, how many of them and how split, serve so many requests of such a length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import msgspec

from kvlab import engines, kinds
from kvlab.core.engine import Deployment, Gpu, Planner
from kvlab.core.errors import KvlabError
from kvlab.core.plan import Ask
from kvlab.core.sizing import Candidate, Candidates, Search
from kvlab.core.taken import Taken
from kvlab.core.units import GIB, ceil_div
from kvlab.facts import gpus
from kvlab.planning import Prepared, prepare
from kvlab.source import Loaded
from kvlab.tables import over

_SPLITS = ((1, 1), (2, 1), (1, 2), (4, 1), (2, 2), (1, 4), (8, 1), (4, 2), (2, 4), (8, 2), (4, 4), (8, 4))
"""Tensor x pipeline parallel sizes, fewest GPUs first: tensors within a machine of eight, stages across machines."""
_ANY = 1 << 30
"""More requests than any pool holds: the limit of an engine that has none."""
_WORTH = 1.05
"""Gain in concurrency from which decode context parallelism is proposed."""


class Count(msgspec.Struct, frozen=True):
    """Whole requests that one replica holds at the low end, the middle and the high end of its pool's range."""

    low: int
    middle: int
    high: int
    prepared: Prepared
    dtype: str
    context: int


class Where(msgspec.Struct, frozen=True):
    """A model and an engine on one kind of GPU."""

    loaded: Loaded
    planner: Planner
    gpu: Gpu


def candidates(
    loaded: Loaded, ask: Ask, search: Search, progress: Callable[[int, int], None] | None = None
) -> Candidates:
    """What serves `ask.users` requests of its context, in the order of `kinds.preference`.

    A given split is kept, and --gpus is the most that may be taken. Raises BadInput when the filter matches no GPU.
    """
    planner = remembering(engines.planner(ask.engine))
    tried, not_run = kinds.matching(planner, ask, search.only)
    priced = {gpus.find(name).name: dollars for name, dollars in search.prices.items()}
    users = ask.users or 1
    rows: list[Candidate] = []
    for done, gpu in enumerate(tried):
        if progress is not None:
            progress(done, len(tried))
        rows += _rows(Where(loaded, planner, gpu), ask, users, priced.get(gpu.name))
    rows.sort(key=kinds.preference)
    return Candidates(
        users=users,
        context=rows[0].context if rows else ask.context or loaded.model.context or 0,
        sorted_by="price" if any(row.usd_per_hour is not None for row in rows) else "gpus",
        rows=tuple(rows[: search.limit]),
        left_out=max(0, len(rows) - search.limit),
        gpus_tried=len(tried),
        most_gpus=kinds.MOST_GPUS,
        not_run=not_run,
    )


def remembering(planner: Planner) -> Planner:
    """The planner with each split of the weights counted once: it does not depend on the GPU, and costs the most."""
    count = planner.rank_weights
    if count is None:
        return planner
    known: dict[tuple[int | None, int, int, int], Taken] = {}

    def remembered(deployment: Deployment) -> Taken:
        ask = deployment.ask
        key = (ask.tp, ask.pp, ask.dp, ask.ep)
        if key not in known:
            known[key] = count(deployment)
        return known[key]

    return msgspec.structs.replace(planner, rank_weights=remembered)


def _rows(where: Where, ask: Ask, users: int, price: float | None) -> list[Candidate]:
    """The fewest GPUs of one kind in the engine's dtype, and in a smaller one when that needs fewer."""
    rows: list[Candidate] = []
    for dtype in offered(where.loaded, where.planner, ask):
        sure, maybe = _fewest(where, msgspec.structs.replace(ask, kv_dtype=dtype), users)
        before = min((row.gpus for row in rows if row.verdict == "holds"), default=kinds.MOST_GPUS + 1)
        rows += [row for row in (maybe, sure) if row is not None and row.gpus < before]
    if price is None:
        return rows
    return [msgspec.structs.replace(row, usd_per_hour=price * row.gpus) for row in rows]


def offered(loaded: Loaded, planner: Planner, ask: Ask) -> tuple[str | None, ...]:
    """The asked cache dtype; else the engine's own choice and the first besides that stores less than 16 bits."""
    if ask.kv_dtype or ask.kv_dtype_k or ask.kv_dtype_v:
        return (ask.kv_dtype,)
    return (None, *_smaller(loaded, planner, ask))


def _smaller(loaded: Loaded, planner: Planner, ask: Ask) -> Iterable[str]:
    def held(dtype: str) -> int | None:
        try:
            return planner.token_bytes(loaded.model, loaded.layout, dtype, ask)
        except KvlabError:
            return None

    plain = held(planner.dtypes[0])
    return [dtype for dtype in planner.dtypes if plain and 0 < (held(dtype) or 0) < plain][:1]


def _fewest(where: Where, ask: Ask, users: int) -> tuple[Candidate | None, Candidate | None]:
    """The fewest GPUs that hold the users at both ends of the range, and fewer ones that hold them at its middle."""
    sure: Candidate | None = None
    maybe: Candidate | None = None
    done: set[int] = set()
    most = ask.gpus or kinds.MOST_GPUS
    ranks = _most_ranks(where, ask)
    asked = msgspec.structs.replace(ask, gpus=None, dp=1)
    for tp, pp in _splits(ask):
        size = tp * pp
        if size in done or (sure is not None and size >= sure.gpus) or size > ranks:
            continue
        if not _weights_fit(where, ask, size):
            continue
        count = count_on(where, msgspec.structs.replace(asked, tp=tp if tp > 1 else None, pp=pp))
        if count is None:
            continue
        done.add(size)
        for held, verdict in ((count.low, "holds"), (count.middle, "may_hold")):
            replicas = ceil_div(users, held) if held else most + 1
            if replicas * size > most:
                continue
            row = _row(count, where.gpu, replicas, sure=verdict == "holds")
            if verdict == "holds":
                sure = row if sure is None or row.gpus < sure.gpus else sure
            else:
                maybe = row if maybe is None or row.gpus < maybe.gpus else maybe
    if maybe is not None and sure is not None and maybe.gpus >= sure.gpus:
        maybe = None
    return sure, maybe


def _splits(ask: Ask) -> list[tuple[int, int]]:
    """Tensor and pipeline sizes to try: all, or those that were asked for."""
    if ask.tp is not None:
        return [(ask.tp, ask.pp)]
    return [(tp, pp) for tp, pp in _SPLITS if ask.pp in (1, pp) and tp * pp <= (ask.gpus or kinds.MOST_GPUS)]


def _most_ranks(where: Where, ask: Ask) -> int:
    """GPUs that one copy may be split over; a split that the user names is only bound by the machine."""
    named = ask.tp is not None or ask.pp > 1
    return kinds.MOST_GPUS if named and not gpus.is_alone(where.gpu) else kinds.most_ranks(where.gpu)


def _weights_fit(where: Where, ask: Ask, ranks: int) -> bool:
    """Whether an even share of the weights is smaller than the GPU: saves carving what cannot work."""
    weights = where.loaded.weights if ask.weights_gib is None else None
    least = (weights.low or weights.bytes) if weights is not None else (ask.weights_gib or 0) * GIB
    return least / ranks < where.gpu.usable_bytes


def count_on(where: Where, ask: Ask) -> Count | None:
    """What one replica holds, with decode context parallelism where that helps; None when the engine refuses it."""
    best: Count | None = None
    sizes = [size for size in (1, 2, 4, 8) if size <= (ask.tp or 1) and (size == 1 or ask.dcp == 1)]
    for dcp in sizes:
        try:
            own = ask if dcp == 1 else msgspec.structs.replace(ask, dcp=dcp)
            found = _count(prepare(where.loaded, own, where.gpu, where.planner))
        except KvlabError:
            # A refusal of more context parallelism is final for larger ones too.
            break
        if found is not None and (best is None or found.middle > best.middle * _WORTH):
            best = found
    return best


def one_replica(where: Where, ask: Ask) -> Candidate | None:
    """One copy of the model on `ask.tp` of the GPUs; None when it holds no request or the engine refuses it."""
    ranks = (ask.tp or 1) * ask.pp
    if not _weights_fit(where, ask, ranks) or (ranks > 1 and gpus.is_alone(where.gpu)):
        return None
    count = count_on(where, ask)
    return None if count is None or not count.middle else _row(count, where.gpu, 1, sure=count.low > 0)


def _count(prepared: Prepared) -> Count | None:
    pool, deployment = prepared.pool, prepared.deployment
    if pool is None:
        return None  # the weights are not known
    one = msgspec.structs.replace(deployment, ask=msgspec.structs.replace(deployment.ask, users=1))
    carved = prepared.planner.carve(one)
    low, middle, high = (together(prepared, max(0, room)) for room in (pool.low, pool.bytes, pool.high))
    return Count(low, middle, high, prepared, carved.kv.dtype, carved.context)


def together(prepared: Prepared, room: int) -> int:
    """Whole requests of the context that `room` bytes a rank hold, as many as the scheduler lets run."""
    ask = prepared.deployment.ask
    users = ask.users or 1
    most = prepared.planner.most_requests
    limit = ask.max_num_seqs or (most(ask, prepared.deployment.gpu) if most else _ANY)
    if room <= 0:
        return 0
    held = _held(prepared, room, users)
    if held is not None:
        return min(limit, held)
    low, high = 0, users - 1  # an engine whose caches are asked for: as many as fit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (low, middle - 1) if _held(prepared, room, middle) is None else (middle, high)
    return min(limit, low)


def _held(prepared: Prepared, room: int, users: int) -> int | None:
    """Requests that the engine runs at once when it is asked for `users`; None when it takes more than the room."""
    planner, deployment = prepared.planner, prepared.deployment
    ask = msgspec.structs.replace(deployment.ask, users=users)
    try:
        carved = planner.carve(_with(deployment, ask, room))
    except KvlabError:
        if planner.one_request is None or users == 1:
            raise
        return None  # more slots than the engine has
    if over(carved, room):
        return None
    if carved.capacity is None or carved.capacity.longest_request_tokens < carved.context:
        return 0
    return math.floor(carved.capacity.max_concurrency)


def _with(deployment: Deployment, ask: Ask, room: int) -> Deployment:
    return msgspec.structs.replace(deployment, ask=ask, pool_bytes=room)


def _row(count: Count, gpu: Gpu, replicas: int, *, sure: bool) -> Candidate:
    ask, pool = count.prepared.deployment.ask, count.prepared.pool
    number = (ask.tp or 1) * ask.pp * replicas
    return Candidate(
        gpu=gpu.name,
        gpus=number,
        tp=ask.tp or 1,
        pp=ask.pp,
        dp=replicas,
        dcp=ask.dcp,
        kv_dtype=count.dtype,
        context=count.context,
        concurrency=count.middle * replicas,
        low=count.low * replicas,
        high=count.high * replicas,
        kind=pool.kind if pool is not None else "estimated",
        verdict="holds" if sure else "may_hold",
        memory_bytes=gpu.usable_bytes * number,
        shared_memory=gpus.is_alone(gpu),
    )
