"""Requests at once: arrivals and service times swept over time, against what a pool holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvlab.core.concurrency import Concurrency, GapMove, Verdict
from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.speed import Range
from kvlab.workload.gap import WANTED, Demand, Pool, moves

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from kvlab.core.plan import Plan
    from kvlab.core.trace import Blocks, Floats, Ints, Trace
    from kvlab.core.traffic import ContextLimit
    from kvlab.workload.questions import Questions

_PERCENT = 0.99
_SAID = {
    "measured": "a request is served for as long as the log says",
    "stated": "a request is served for its prompt over --prefill-speed and one --decode-step a token of its answer",
    "estimated": "a request is served for its prompt and its answer over the speeds of the plan, slow and fast ends",
}
_REST = (
    "none waits, and each holds its whole prompt and answer from its arrival to its end (what prompts share is held"
    " once, so a pool with prefix caching holds more); a pool holds its tokens over the mean length; p99: not exceeded"
    " in 99 % of the time"
)


class Services(NamedTuple):
    """How long each request is served, at the fast and at the slow end."""

    kind: Literal["measured", "stated", "estimated"]
    fast: Floats
    slow: Floats


def together(trace: Trace, limit: ContextLimit, capacities: Sequence[int], asked: Questions) -> Concurrency | None:
    """Mean, p99 and peak of the requests at once; None where the log lacks times or answers, or no speed is known."""
    services = _services(trace, asked)
    if trace.arrivals is None or trace.outputs is None or services is None:
        return None
    total = trace.inputs + trace.outputs
    fast, slow = (_swept(trace.arrivals, one) for one in (services.fast, services.slow))
    pool = _pool(trace.blocks, capacities, asked)
    mean = float(total.mean())
    keep = total <= limit.recommended
    cut = Demand(
        peak=_swept(trace.arrivals[keep], services.slow[keep]).peak if keep.any() else 0,
        tokens=float(total[keep].mean()) if keep.any() else 0.0,
        prompt=float(trace.inputs[keep].mean()) if keep.any() else 0.0,
    )
    demand = Demand(slow.peak, mean, float(trace.inputs.mean()))
    holds: float | None = None
    spare: Range | None = None
    verdict: Verdict | None = None
    missing: int | None = None
    found: tuple[GapMove, ...] = ()
    if pool is not None and mean:
        holds = pool.tokens / mean
        spare = Range(1 - slow.peak / holds, 1 - fast.peak / holds)
        missing = max(0, int(np.ceil(demand.needed)) - pool.tokens)
        verdict = "enough" if not missing else "short" if spare.high < WANTED else "depends on the speed"
        found = moves(pool, demand, cut, limit) if missing else ()
    return Concurrency(
        service=services.kind,
        service_seconds=Range(float(services.fast.mean()), float(services.slow.mean())),
        mean=Range(fast.mean, slow.mean),
        p99=Range(fast.p99, slow.p99),
        peak=Range(fast.peak, slow.peak),
        tokens_per_request=mean,
        pool_tokens=None if pool is None else pool.tokens,
        pool_bytes=None if pool is None or pool.bytes_per_token is None else pool.tokens * pool.bytes_per_token,
        holds=holds,
        spare=spare,
        wanted_spare=WANTED,
        verdict=verdict,
        missing_tokens=missing,
        moves=found,
        cheapest=next((move.code for move in found if move.closes), None),
        definition=f"{_SAID[services.kind]}; {_REST}",
    )


def _services(trace: Trace, asked: Questions) -> Services | None:
    """By the speeds that were given, else the log's own times, else the plan's speeds."""
    if trace.outputs is None:
        return None
    prefill, step = asked.prefill_tokens_per_second, asked.decode_step_ms
    if prefill is not None and step is not None:
        one = trace.inputs / prefill + trace.outputs * (step / 1000)
        return Services("stated", one, one)
    if trace.services is not None:
        return Services("measured", trace.services, trace.services)
    if asked.plan is None:
        return None
    return _planned(asked.plan, trace.inputs, trace.outputs)


def _planned(plan: Plan, inputs: Ints, outputs: Ints) -> Services:
    """By the ranges of a plan: prefill of one prompt, decoding from the smallest to the largest batch that it tells.

    Raises BadInput for a plan without a speed.
    """
    speed = plan.speed
    if speed is None or speed.prefill is None or not speed.decode:
        raise BadInput(
            "the plan of --plan states no speed: plan with --gpu, or give --prefill-speed and --decode-step here"
        )
    prefill = speed.prefill.tokens_per_second
    each = [pace.tokens_per_second_each for pace in speed.decode]
    slow, fast = min(one.low for one in each), max(one.high for one in each)
    return Services("estimated", inputs / prefill.high + outputs / fast, inputs / prefill.low + outputs / slow)


def _pool(blocks: Blocks | None, capacities: Sequence[int], asked: Questions) -> Pool | None:
    """The first --capacity, else the first --pool, else the plan's, of all its replicas."""
    from kvlab.workload.beside import whole_blocks
    from kvlab.workload.questions import BLOCK

    size = (asked.block_size or BLOCK) if blocks is None else blocks.size
    pools = capacities or whole_blocks(asked.pools[:1], size, asked.bytes_per_token, "--pool")
    plan = asked.plan
    if pools:
        return Pool(pools[0] * size, asked.bytes_per_token)
    if plan is None or plan.capacity is None:
        return None
    replicas = plan.ask.dp
    others = {line.kv_dtype: line.tokens * replicas for line in plan.alternatives if line.tokens is not None}
    return Pool(plan.capacity.tokens * replicas, plan.kv.bytes_per_token, others)


def planned_blocks(plan: Plan | None, size: int) -> tuple[int, ...]:
    """The plan's pool as a capacity on the curve; nothing without one, or where several replicas have one each."""
    if plan is None or plan.capacity is None or plan.ask.dp > 1 or plan.capacity.tokens < size:
        return ()
    return (plan.capacity.tokens // size,)


def doubts(trace: Trace, asked: Questions, found: Concurrency | None) -> list[Doubt]:
    """That nothing can be said, and what arrivals in ticks do to a peak."""
    told = asked.plan is not None or None not in (asked.prefill_tokens_per_second, asked.decode_step_ms)
    if found is None:
        text = "not known: the trace does not say when requests came, or how long their answers were"
        return [Doubt("requests at once", text)] if told else []
    assert trace.arrivals is not None
    most = int(np.unique(trace.arrivals, return_counts=True)[1].max())
    ticks = len(np.unique(trace.arrivals))
    if ticks * 2 > len(trace.arrivals) or len(trace.arrivals) == 1:
        return []
    text = (
        f"the {len(trace.arrivals):,} requests have {ticks:,} different times, up to {most:,} of them the same one:"
        " a coarse clock makes the peak higher than it was"
    )
    return [Doubt("requests at once", text)]


class _Swept(NamedTuple):
    mean: float
    p99: float
    peak: int


def _swept(arrivals: Floats, seconds: Floats) -> _Swept:
    """Requests at once from the first arrival to the last end; one that ends as another comes has ended."""
    arrivals, seconds = arrivals[seconds > 0], seconds[seconds > 0]
    if not len(arrivals):
        return _Swept(0.0, 0.0, 0)
    arrivals = arrivals - arrivals.min()  # seconds since 1970 leave a float no room for short services
    times = np.concatenate([arrivals + seconds, arrivals])
    steps = np.repeat(np.array([-1, 1], dtype=np.int64), len(arrivals))
    order = np.argsort(times, kind="stable")
    running = np.cumsum(steps[order])[:-1]
    spans = np.diff(times[order])
    share = np.cumsum(np.bincount(running, weights=spans)) / spans.sum()
    at = int(np.searchsorted(share, _PERCENT - 1e-12))
    # a request that is shorter than the clock's step is there all the same
    return _Swept(float(seconds.sum() / spans.sum()), float(at), int(running.max()))
