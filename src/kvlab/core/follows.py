"""Which line of the ledger a difference follows from, by the arithmetic of what the log states."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kvlab.core.check import CheckRow
from kvlab.core.observation import Observation
from kvlab.core.plan import Plan
from kvlab.core.units import GIB, HALF_DIGIT

POOL = "pool"
PER_TOKEN = "bytes_per_token"
"""The cost of a token, which is no line of the ledger but what divides its pool."""
BLOCK = "block_size"
_OF_POOL = frozenset(
    {
        *("kv_tokens", "max_concurrency", "num_gpu_blocks", "longest_request_tokens"),
        *("kv_bytes", "kv_k_bytes", "kv_v_bytes", "kv_full_tokens", "kv_window_tokens"),
    }
)
"""Quantities that are shares of the pool: they change by the ratio by which it does."""
_PRINTED = HALF_DIGIT * GIB
_NOTICED, _REST = 0.1, 0.25
"""Shares of a pool's difference from which a line is named, and from which a rest is."""


def follows(plan: Plan, observation: Observation, rows: Iterable[CheckRow]) -> dict[str, tuple[str, ...]]:
    """Names of the differing rows -> the lines that their difference follows from, the nearest first.

    A row that no arithmetic traces has none.
    """
    differing = {row.name: row for row in rows if row.verdict == "differs"}
    roots = _roots(plan, observation, pool_off(plan, observation, differing))
    return {name: _of(plan, observation, row, differing, roots) for name, row in differing.items()}


def stated_pool(observation: Observation) -> tuple[float, tuple[str, ...]] | None:
    """Bytes of the pool on one rank, and the rows that state them; None when the log does not say."""
    rows = _rows_of_pool(observation)
    found = [observation.get(name) for name in rows]
    sizes = [float(seen.value) for seen in found if seen is not None and not isinstance(seen.value, str)]
    return (sum(sizes), rows) if len(sizes) == len(rows) and sum(sizes) > 0 else None


def _rows_of_pool(observation: Observation) -> tuple[str, ...]:
    """The rows that state the pool: one of its own, else those of its parts."""
    for name in ("kv_pool_bytes", "kv_allocated_bytes"):
        if observation.get(name) is not None:
            return (name,)
    return observation.pool_parts


def pool_off(plan: Plan, observation: Observation, differing: Collection[str]) -> float | None:
    """Bytes by which the log's pool is larger than the planned one; None when it agrees, or is not stated.

    `differing` holds the names of the rows that differ.
    """
    stated = stated_pool(observation)
    if stated is None or plan.capacity is None or not any(name in differing for name in stated[1]):
        return None
    return stated[0] - plan.capacity.pool_bytes


def _of(
    plan: Plan, observation: Observation, row: CheckRow, differing: Mapping[str, CheckRow], roots: tuple[str, ...]
) -> tuple[str, ...]:
    name = row.name
    stated = stated_pool(observation)
    if stated is not None and name in stated[1]:
        return (POOL, *roots)
    if name.startswith("weights_"):
        return ("weights",)
    if name in ("kv_cache_dtype", "request_bytes"):
        return (PER_TOKEN,)
    line = _line_of(plan, name)
    if line is not None:
        return (line,)
    if name not in _OF_POOL:
        return ()
    off = pool_off(plan, observation, differing)
    whole, got = pool_ratio(plan, observation), ratio(row)
    if whole is None:
        return _without_pool(row, differing)
    if got is not None and abs(got / whole - 1) <= slack(plan, row):
        return (POOL, *roots)
    blocks = observation.get("block_size")
    capacity = plan.capacity
    other = blocks is not None and capacity is not None and blocks.value != capacity.block_size
    near = (PER_TOKEN, BLOCK) if other else (PER_TOKEN,)
    return (*near, POOL, *roots) if off is not None else near


def _without_pool(row: CheckRow, differing: Mapping[str, CheckRow]) -> tuple[str, ...]:
    """Of a log that states no pool: bytes and tokens that changed alike were given another one."""
    others = [ratio(found) for name, found in differing.items() if name.startswith("kv_") and name.endswith("_bytes")]
    tokens = ratio(differing["kv_tokens"]) if "kv_tokens" in differing else None
    if tokens is None or not others:
        return ()
    alike = all(other is not None and abs(other / tokens - 1) < 0.01 for other in others)
    return (POOL,) if alike else (PER_TOKEN,)


def ratio(row: CheckRow) -> float | None:
    """Seen over planned; None for words, and where one of them is 0."""
    if isinstance(row.seen, int | float) and isinstance(row.planned, int | float) and row.seen > 0 < row.planned:
        return row.seen / row.planned
    return None


def pool_ratio(plan: Plan, observation: Observation) -> float | None:
    """The log's pool over the planned one; None when one of them is not stated."""
    stated = stated_pool(observation)
    planned = plan.capacity.pool_bytes if plan.capacity is not None else 0
    if stated is None or planned <= 0:
        return None
    # A pool that was given is printed rounded: the same one is no other.
    return 1.0 if abs(stated[0] - planned) <= _PRINTED else stated[0] / planned


def slack(plan: Plan, row: CheckRow) -> float:
    """By how much the ratio of a row may differ from the pool's: the printed digits, and blocks that are whole."""
    capacity = plan.capacity
    if capacity is None:
        return 0.0
    digits = _PRINTED / max(capacity.pool_bytes, 1)
    shown = (
        HALF_DIGIT / row.seen if row.name == "max_concurrency" and isinstance(row.seen, float) and row.seen > 0 else 0.0
    )
    return 2 * digits + 2 / max(capacity.num_blocks, 1) + shown


def _line_of(plan: Plan, name: str) -> str | None:
    """The ledger's own line of a row: "kv_full" of "kv_full_k_bytes"."""
    names = sorted((line.name for line in plan.ledger if line.name != POOL), key=len, reverse=True)
    return next((line for line in names if name.startswith(f"{line}_")), None)


def parts(plan: Plan, observation: Observation) -> dict[str, float]:
    """Line of the ledger -> bytes by which the log's own number of it makes the pool larger (or, below 0, smaller)."""
    planned = {line.name: -line.bytes for line in plan.ledger}
    found: dict[str, float] = {}
    stated = {
        "weights": observation.get("weights_bytes"),
        "cuda_graphs": observation.get("graph_estimate_bytes"),
        "non_torch": observation.hint("non_torch_bytes"),
        "activations": observation.hint("activation_bytes"),
    }
    for name, seen in stated.items():
        counted = name in planned or (name == "cuda_graphs" and POOL in planned)
        if counted and seen is not None and not isinstance(seen.value, str):
            found[name] = planned.get(name, 0) - seen.value
    share = observation.setting("util")
    left = planned.get("left_free")
    if share is not None and isinstance(share.value, float) and left is not None and "gpu_memory" in planned:
        whole = -planned["gpu_memory"]
        found["left_free"] = left - (1 - share.value) * whole
    return found


def _roots(plan: Plan, observation: Observation, off: float | None) -> tuple[str, ...]:
    """What the pool's difference comes from: lines that the log states otherwise, then those that it does not state."""
    if not off:
        return ()
    stated = parts(plan, observation)
    ours = {name: part for name, part in stated.items() if part * off > 0 and abs(part) >= _NOTICED * abs(off)}
    named = sorted(ours, key=lambda name: -abs(ours[name]))
    if abs(off - sum(stated.values())) < _REST * abs(off):
        return tuple(named)
    names = [line.name for line in plan.ledger]
    above = plan.ledger[: names.index(POOL)] if POOL in names else ()
    unstated = sorted(
        (line for line in above if line.kind == "estimated" and line.name not in stated),
        key=lambda line: line.low - line.high,
    )
    return (*named, *(line.name for line in unstated[:2]))
