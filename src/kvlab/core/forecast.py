"""What plan and load foretell of an experiment, written down before the first run and scored after it.

Only what the cache decides is foretold: how many requests run at once, how full the pool gets, and whether it is ever
too small for what is in flight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from kvlab.core.plan import Plan
from kvlab.core.record import Forecast, Load, Run

ArmName = Literal["a", "b"]
ARMS: tuple[ArmName, ...] = ("a", "b")


def forecast(plans: Mapping[ArmName, Plan], load: Load) -> tuple[Forecast, ...]:
    """The rows for both arms; empty for an open loop, a file of prompts, and a plan without capacity.

    In a closed loop `load.concurrency` requests are always there, each of `input_tokens` growing to `input_tokens` +
    `output_tokens`. What of them the pool, and the engine's limit where the plan names it, lets run is the forecast of
    requests at once; the tokens that they hold, between all at their start and all at their end, that of the use.
    """
    if load.concurrency is None or load.rate is not None or load.input_tokens is None or load.output_tokens is None:
        return ()
    prompt, most = load.input_tokens, load.input_tokens + load.output_tokens
    return tuple(row for arm in ARMS if arm in plans for row in _of_arm(arm, plans[arm], load, (prompt, most)))


def _of_arm(arm: ArmName, plan: Plan, load: Load, tokens: tuple[int, int]) -> list[Forecast]:
    capacity = plan.capacity
    if capacity is None or capacity.tokens <= 0 or load.concurrency is None:
        return []
    together, (prompt, most) = min(load.concurrency, load.prompts), tokens
    limit = _limit(plan)
    sizes = [end.tokens for end in (plan.capacity_low, capacity, plan.capacity_high) if end is not None]
    cap = min(together, limit or together)
    # A request is admitted when its prompt fits; what it grows by may preempt it later, or make others wait.
    low, high = max(1, min(cap, min(sizes) // most)), max(1, min(cap, max(sizes) // prompt))
    because = f"{together} in flight of {prompt:,} to {most:,} tokens, {capacity.tokens:,} tokens in the pool"
    because += "" if limit is None else f", at most {limit} at once by the engine's own limit"
    block = capacity.block_size or 1  # an engine without blocks holds tokens
    whole = [-(-tokens // block) * block for tokens in (prompt, most)]
    use = (low * whole[0] / max(sizes), high * whole[1] / min(sizes))
    rows = (
        ("running_at_once", "requests", float(low), float(high)),
        ("peak_cache_use", "share", min(1.0, use[0]), min(1.0, use[1])),
        ("requests_wait", "yes or no", float(high < together), float(low < together)),
    )
    return [
        Forecast(arm=arm, name=name, unit=unit, low=least, high=largest, because=because)
        for name, unit, least, largest in rows
    ]


def _limit(plan: Plan) -> int | None:
    """Requests that the engine runs at once whatever the pool holds; None where the plan does not say."""
    stated = next((row.value for row in plan.expects if row.name == "slots"), None)
    return int(stated) if isinstance(stated, int | float) else plan.ask.parallel or plan.ask.max_num_seqs


def scored(rows: Sequence[Forecast], runs: Sequence[Run]) -> tuple[Forecast, ...]:
    """The rows with what the engine said during the runs, the largest of all runs of the arm."""
    return tuple(_scored(row, [run for run in runs if run.arm == row.arm]) for row in rows)


def _scored(row: Forecast, runs: Sequence[Run]) -> Forecast:
    words = {
        "running_at_once": [run.pool.peak_running for run in runs],
        "peak_cache_use": [run.pool.peak_kv_used for run in runs],
        "requests_wait": [None if run.pool.peak_waiting is None else float(run.pool.peak_waiting > 0) for run in runs],
    }
    values = [value for value in words[row.name] if value is not None]
    if not values:
        return row
    seen = max(values)
    return msgspec.structs.replace(row, seen=seen, hit=row.low - 1e-9 <= seen <= row.high + 1e-9)
