"""How full a cache is where the engine states the tokens in use and not their share of the pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kvlab.core.diagnosis import Case, Look, Planned, Pool
from kvlab.core.scrape import believed

_SAME = 0.01
"""By how much a planned pool may differ from the one that slots add up to: engines round contexts."""


class Bounds(NamedTuple):
    """The tokens of the smallest pool that the engine may have, and of the largest."""

    low: float
    high: float


def filled(case: Case) -> Case:
    """The case with kv_used_ratio in each look that states kv_used_tokens, where the tokens of the pool are known.

    They are known when the metrics state them (kv_tokens), when one slot has the whole cache, when slots hold more
    together than one may (then each has its own part), or when the plan says them.
    """
    by_pool = {pool.name: size for pool in case.pools if (size := _size(pool, case.plan)) is not None}
    return replace(case, looks=tuple(_filled(look, by_pool) for look in case.looks)) if by_pool else case


def bounds(pool: Pool) -> Bounds | None:
    """What the pool may hold, of slots that share one cache or divide it: a running llama-server does not say which."""
    slots, each = pool.seen("slots"), pool.seen("n_ctx_slot")
    return Bounds(each[-1], slots[-1] * each[-1]) if slots and each and slots[-1] and each[-1] else None


def _size(pool: Pool, plan: Planned | None) -> float | None:
    used, stated, sizes = pool.seen("kv_used_tokens"), pool.seen("kv_tokens"), bounds(pool)
    if not used:
        return None
    if stated:
        return stated[-1] or None
    if sizes is not None and (sizes.low == sizes.high or max(used) > sizes.low):
        return sizes.high
    planned = None if plan is None or pool.name else plan.tokens
    if not planned or (plan is not None and plan.replicas > 1):
        return None
    if sizes is None:
        return float(planned)
    return next((size for size in sizes if abs(size - planned) <= _SAME * size), None)


def _filled(look: Look, by_pool: Mapping[str, float]) -> Look:
    read = look.reading
    pools = {name: _with_ratio(values, by_pool.get(name)) for name, values in read.pools.items()}
    values = _with_ratio(read.values, by_pool.get(""))
    lines = dict(read.lines)
    if "kv_used_ratio" in values and "kv_used_ratio" not in read.values:
        lines["kv_used_ratio"] = f"kv_used_tokens {values['kv_used_tokens']:,.0f} of {by_pool['']:,.0f} tokens"
    return replace(look, reading=replace(read, values=values, lines=lines, pools=pools))


def _with_ratio(values: Mapping[str, float], size: float | None) -> Mapping[str, float]:
    if size is None or "kv_used_ratio" in values or "kv_used_tokens" not in values:
        return values
    return {**values, **believed({"kv_used_ratio": values["kv_used_tokens"] / size})}
