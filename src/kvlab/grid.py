"""What buys what: requests at once over cache dtype, context and tensor parallel size, and the rows nothing beats."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kvlab import engines, kinds, sizing
from kvlab.core.engine import Planner
from kvlab.core.errors import BadInput, KvlabError
from kvlab.core.plan import Ask
from kvlab.core.sizing import Candidate, Candidates, MatrixLine, Search
from kvlab.facts import gpus
from kvlab.planning import Prepared, prepare
from kvlab.source import Loaded
from kvlab.tables import CONTEXTS, request_bytes

_TENSOR_SIZES = (1, 2, 4, 8)
_CONTEXTS = 5
"""Context lengths of a Pareto search that names none: the model's own, and halves of it."""
_ENOUGH = 1024
"""Requests at once beyond which more are not told apart."""


def matrix(loaded: Loaded, ask: Ask) -> tuple[MatrixLine, ...]:
    """Requests at once for each dtype, length and TP size that the GPUs allow; cells that the engine refuses say so.

    Raises BadInput without a GPU or a pool.
    """
    if not ask.placed:
        raise BadInput("--matrix needs memory to divide; add --gpu NAME or --pool-gib X")
    planner = engines.planner(ask.engine)
    sizes = (
        [size for size in _TENSOR_SIZES if size <= (ask.gpus or _TENSOR_SIZES[-1])] if "tp" in planner.options else [1]
    )
    lines: list[MatrixLine] = []
    for tp in sizes:
        asked = msgspec.structs.replace(ask, gpus=None, tp=tp if tp > 1 else None)
        try:
            prepared = prepare(loaded, asked)
            own = planner.carve(prepared.deployment)
        except KvlabError as refusal:
            lines.append(MatrixLine(kv_dtype="", context=0, tp=tp, concurrency=None, refused=str(refusal)))
            continue
        native = loaded.model.context or own.context
        lengths = sorted({length for length in CONTEXTS if length <= native} | {own.context})
        for dtype in (own.kv.dtype, *(dtype for dtype in planner.dtypes if dtype != own.kv.dtype)):
            lines += [_cell(planner, prepared, dtype, length, tp) for length in lengths]
    return tuple(lines)


def _cell(planner: Planner, prepared: Prepared, dtype: str, context: int, tp: int) -> MatrixLine:
    pool = prepared.pool
    try:
        charged = request_bytes(planner, prepared.deployment, dtype, context)
    except KvlabError as refusal:
        return MatrixLine(kv_dtype=dtype, context=context, tp=tp, concurrency=None, refused=str(refusal))
    if pool is None or not charged:
        return MatrixLine(kv_dtype=dtype, context=context, tp=tp, concurrency=None)
    low, middle, high = (max(0, room) / charged for room in (pool.low, pool.bytes, pool.high))
    return MatrixLine(kv_dtype=dtype, context=context, tp=tp, concurrency=middle, low=low, high=high, kind=pool.kind)


def pareto(loaded: Loaded, ask: Ask, search: Search, progress: Callable[[int, int], None] | None = None) -> Candidates:
    """Splits of one to eight GPUs that no other beats in concurrency, context, cost and bytes per cached value at once.

    Only what holds `ask.users` requests (one without) counts. Cost is the price, or the memory for GPUs without one.
    Raises BadInput as `sizing.candidates` does.
    """
    planner = sizing.remembering(engines.planner(ask.engine))
    named = None if ask.gpu is None else [gpus.find(ask.gpu)]
    found, not_run = (named, ()) if named is not None else kinds.matching(planner, ask, search.only)
    users = ask.users or 1
    priced = {gpus.find(name).name: dollars for name, dollars in search.prices.items()}
    if priced and ask.gpu is None:
        found = [gpu for gpu in found if gpu.name in priced]
    rows: list[Candidate] = []
    for done, gpu in enumerate(found):
        if progress is not None:
            progress(done, len(found))
        for asked in _requests(loaded, ask, planner):
            row = sizing.one_replica(sizing.Where(loaded, planner, gpu), asked)
            if row is not None and row.concurrency >= users:
                price = priced.get(gpu.name)
                rows.append(
                    msgspec.structs.replace(
                        row,
                        usd_per_hour=None if price is None else price * row.gpus,
                        verdict="holds" if row.low >= users else "may_hold",
                    )
                )
    best = [row for row in rows if not any(_beats(other, row, planner) for other in rows)]
    best.sort(key=lambda row: (_cost(row), -row.context, -row.concurrency))
    return Candidates(
        users=users,
        context=max((row.context for row in best), default=0),
        sorted_by="price" if priced else "memory",
        rows=tuple(best[: search.limit]),
        left_out=max(0, len(best) - search.limit),
        gpus_tried=len(found),
        most_gpus=max(_TENSOR_SIZES),
        not_run=not_run,
    )


def _requests(loaded: Loaded, ask: Ask, planner: Planner) -> list[Ask]:
    native = loaded.model.context
    halves = [native >> step for step in range(_CONTEXTS) if native >> step >= CONTEXTS[0]] if native else []
    lengths: list[int | None] = [ask.context] if ask.context is not None else [*halves] or [None]
    sizes = _TENSOR_SIZES if "tp" in planner.options else (1,)
    return [
        msgspec.structs.replace(
            ask, gpu=None, gpus=None, users=_ENOUGH, tp=tp if tp > 1 else None, context=length, kv_dtype=dtype
        )
        for tp in sizes
        for dtype in sizing.offered(loaded, planner, ask)
        for length in lengths
    ]


def _cost(row: Candidate) -> float:
    return row.usd_per_hour if row.usd_per_hour is not None else float(row.memory_bytes)


def _rank(planner: Planner, dtype: str) -> int:
    """Engines list their cache dtypes from the plainest to the smallest."""
    return planner.dtypes.index(dtype) if dtype in planner.dtypes else 0


def _beats(one: Candidate, other: Candidate, planner: Planner) -> bool:
    """Whether `one` is at least as good everywhere and better somewhere."""
    if (one.usd_per_hour is None) != (other.usd_per_hour is None):
        return False
    mine, theirs = ((row.low, row.context, -_cost(row), -_rank(planner, row.kv_dtype)) for row in (one, other))
    return mine != theirs and all(ours >= their for ours, their in zip(mine, theirs, strict=True))
