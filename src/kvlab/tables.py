"""The tables of a plan: its rows in bytes, the same pool in other dtypes, the cost of each context length."""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Carved, Deployment, Planner
from kvlab.core.errors import KvlabError
from kvlab.core.layout import Layout
from kvlab.core.plan import Alternative, ContextLine, LayoutLine, LedgerLine
from kvlab.core.sizing import LongestContext

CONTEXTS = (4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576)
"""Rows of the per-context table, in tokens."""
_STEP = 256


def layout_lines(planner: Planner, deployment: Deployment, carved: Carved) -> list[LayoutLine]:
    """Each row of the layout in bytes on one GPU rank, before the engine's paging."""
    model, ask, dtype = deployment.model, deployment.ask, carved.kv.dtype
    return [
        LayoutLine(
            kind=row.kind,
            layers=len(row.layers),
            bytes_per_token=planner.token_bytes(model, _alone(deployment.layout, at), dtype, ask),
            bytes_per_sequence=planner.sequence_bytes(model, _alone(deployment.layout, at), dtype, ask, carved.context),
            window=row.window,
        )
        for at, row in enumerate(deployment.layout.rows)
    ]


def _alone(layout: Layout, at: int) -> Layout:
    """The layout in which only the row at `at` has layers: what is stored may depend on the kinds beside it."""
    rows = (row if own == at else msgspec.structs.replace(row, layers=()) for own, row in enumerate(layout.rows))
    return Layout(tuple(rows))


def dtypes(planner: Planner, current: str) -> tuple[str, ...]:
    """The cache dtype in use, then those that the engine offers besides."""
    return (current, *(dtype for dtype in planner.dtypes if dtype != current))


def alternative(planner: Planner, deployment: Deployment, carved: Carved, dtype: str) -> Alternative | None:
    """The same pool in another dtype; None when the engine refuses that dtype for this model."""
    too_large = over(carved, deployment.pool_bytes)
    if dtype == carved.kv.dtype:
        other = carved
    else:
        # What was asked for does not fit: then the question is whether the same fits in another dtype.
        change = change_dtype if too_large or planner.same_pool is None else planner.same_pool
        try:
            other = planner.carve(change(deployment, carved, dtype))
        except KvlabError:
            return None
    capacity = other.capacity
    if capacity is None:
        return Alternative(dtype, None, None, None)
    many, longest_held = capacity.max_concurrency, capacity.longest_request_tokens
    if planner.one_request is not None and other.context != carved.context:
        # Caches of another length: counted in requests as long as the plan's.
        many = capacity.tokens / carved.context
        longest_held = min(carved.context, capacity.tokens)
    fits = longest_held >= carved.context and not (too_large and over(other, deployment.pool_bytes))
    return Alternative(dtype, capacity.tokens, many, fits)


def over(carved: Carved, pool: int | None) -> bool:
    """Whether an engine whose caches are asked for would take more than the pool."""
    return pool is not None and carved.capacity is not None and carved.capacity.pool_bytes > pool


def change_dtype(deployment: Deployment, carved: Carved, dtype: str) -> Deployment:
    """The same request stored in another dtype."""
    ask = msgspec.structs.replace(deployment.ask, kv_dtype=dtype, kv_dtype_k=None, kv_dtype_v=None)
    return msgspec.structs.replace(deployment, ask=ask)


def contexts(planner: Planner, deployment: Deployment, carved: Carved, dtypes: tuple[str, ...]) -> list[ContextLine]:
    """What one request costs at each length and dtype, as the engine charges it."""
    lines = []
    for dtype in dtypes:
        for tokens in sorted({*CONTEXTS, carved.context}):
            try:
                # What the plan stores needs no word of its own: older releases have none for bfloat16.
                charged = request_bytes(planner, deployment, None if dtype == carved.kv.dtype else dtype, tokens)
            except KvlabError:
                break
            room, native = deployment.pool_bytes, deployment.model.context
            many = room / charged if room and charged else None
            lines.append(ContextLine(tokens, dtype, charged, many, native is not None and tokens > native))
    return lines


def request_bytes(planner: Planner, deployment: Deployment, dtype: str | None, tokens: int) -> int:
    """What the engine charges one request of `tokens`, whether the model was trained for it or not.

    `dtype` None keeps the one that was asked for.
    """
    alone = planner.one_request(deployment.ask) if planner.one_request else deployment.ask
    ask = msgspec.structs.replace(alone, context=tokens)
    if dtype is not None:
        ask = msgspec.structs.replace(ask, kv_dtype=dtype, kv_dtype_k=None, kv_dtype_v=None)
    model = deployment.model
    if model.context is not None and tokens > model.context:
        model = msgspec.structs.replace(model, context=tokens)
    charged = planner.carve(msgspec.structs.replace(deployment, ask=ask, model=model)).kv.bytes_per_sequence
    if charged is None:
        held = dtype or planner.carve(deployment).kv.dtype
        return planner.sequence_bytes(model, deployment.layout, held, ask, tokens)
    return charged


def longest_contexts(
    planner: Planner, deployment: Deployment, carved: Carved, pool: LedgerLine, dtypes: tuple[str, ...]
) -> tuple[LongestContext, ...]:
    """The longest request that the pool holds in each dtype, and at both ends of the pool's range."""
    found = []
    # An engine whose caches are asked for may take less than the model's own context by default.
    most = carved.context if planner.one_request is None else deployment.model.context or carved.context
    for dtype in dtypes:
        own = deployment if dtype == carved.kv.dtype else change_dtype(deployment, carved, dtype)
        try:
            low, tokens, high = (
                longest(planner, msgspec.structs.replace(own, pool_bytes=max(0, room)), most)
                for room in (pool.low, pool.bytes, pool.high)
            )
        except KvlabError:
            continue
        found.append(LongestContext(dtype, tokens, low, high, pool.kind, native=tokens >= most))
    return tuple(found)


def longest(planner: Planner, deployment: Deployment, most: int) -> int:
    """Tokens of the longest request, up to `most`, that the pool of `deployment` holds; 0 when it holds none.

    Raises KvlabError for a dtype that the engine refuses.
    """
    carved = planner.carve(deployment)
    if carved.capacity is None:
        return 0
    if not over(carved, deployment.pool_bytes) and (planner.one_request is None or carved.context >= most):
        return carved.capacity.longest_request_tokens
    # An engine whose caches are asked for: how much may be asked for, in steps that every engine pads to.
    low, high = 0, most // _STEP
    while low < high:
        middle = (low + high + 1) // 2
        ask = msgspec.structs.replace(deployment.ask, context=middle * _STEP)
        held = planner.carve(msgspec.structs.replace(deployment, ask=ask))
        low, high = (low, middle - 1) if over(held, deployment.pool_bytes) else (middle, high)
    return low * _STEP
