"""What stands beside a verdict: what the engine said of queues and preemptions, and how steady the machine was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvlab.core.blocks import drift
from kvlab.core.comparison import ComparisonRow
from kvlab.core.performance import DECISIVE, PRIMARY, percent, percent_range, share
from kvlab.core.record import Run
from kvlab.core.statistics import CHANCE

FULL = 0.9
"""Peak cache use from which the pool counts as full."""
LARGER_BATCH = 1.25
"""From a quarter more requests at once, an arm's time per output token is not compared at the same batch size."""
MOVED = 0.02
"""A drift of less than 2 % from the first run to the last is not worth a word."""
_BEGIN = 4
"""The first quarter of a run is what is compared with the rest of it."""
SLOW_BEGIN = 0.1
"""Requests of a run's first quarter that are slower than the rest, by more than this in every run, are warm-up."""
UNSTEADY = 0.2
"""Noise of more than 20 %, and of more than the arms differ by, means a machine with other work on it."""
TITLES = {
    "output_throughput": "output throughput",
    "mean_ttft_ms": "mean time to first token",
    "mean_tpot_ms": "mean time per output token",
    "mean_e2el_ms": "mean end-to-end latency",
}


def sentence(row: ComparisonRow) -> str:
    """A metric that decides as a reason: the change, its interval, the noise and what follows."""
    if row.change is None:
        return f"{TITLES[row.metric]}: {row.because}"
    interval = ""
    if row.low is not None and row.high is not None:
        interval = f" ({percent_range(row.low, row.high)})"
    noise = "" if row.noise is None else f", noise between runs {share(row.noise)}"
    return f"{TITLES[row.metric]} {percent(row.change)}{interval}{noise}: {row.verdict}, {row.because}"


class ArmSum(NamedTuple):
    """One arm's runs added up; None: the engine does not say."""

    name: str
    peak: float | None
    waited: float | None
    running: float | None
    preempted: float | None
    completed: int
    failed: int


def added_up(name: str, runs: Sequence[Run]) -> ArmSum:
    """The sums and peaks of one arm's runs."""
    pools = [run.pool for run in runs]
    preempted = [pool.preemptions for pool in pools if pool.preemptions is not None]
    return ArmSum(
        name=name,
        peak=max((pool.peak_kv_used for pool in pools if pool.peak_kv_used is not None), default=None),
        waited=max((pool.peak_waiting for pool in pools if pool.peak_waiting is not None), default=None),
        running=max((pool.peak_running for pool in pools if pool.peak_running is not None), default=None),
        preempted=sum(preempted) if preempted else None,
        completed=sum(run.completed for run in runs),
        failed=sum(run.failed for run in runs),
    )


def pressure(a: ArmSum, b: ArmSum) -> list[str]:
    """What the engine said about queues and preemptions."""
    found = []
    queued = [arm for arm in (a, b) if (arm.waited or 0) > 0]
    if len(queued) == 1:
        other = b if queued[0] is a else a
        if other.waited is not None:
            found.append(
                f"requests waited in arm {queued[0].name} (up to {queued[0].waited:.0f}) and never in {other.name}"
            )
    elif queued:
        found.append(f"requests waited in both arms (up to {a.waited:.0f} in A, {b.waited:.0f} in B)")
    roomy = [(arm.name, share(arm.peak)) for arm in queued if arm.peak is not None and arm.peak < FULL]
    if roomy:
        held = " and ".join(f"{peak} in {name}" for name, peak in roomy)
        found.append(
            f"requests waited with at most part of the cache in use ({held}): the number of slots limits the"
            " concurrency, not the bytes in use"
        )
    for arm in (a, b):
        if arm.preempted:
            found.append(f"arm {arm.name} preempted {_requests(arm.preempted)}: its cache ran over")
    return found


def batches(a: ArmSum, b: ArmSum) -> str | None:
    """Why the arms' times per output token are not those of the same batch; None when they are."""
    if not a.running or not b.running or max(a.running, b.running) < LARGER_BATCH * min(a.running, b.running):
        return None
    more = a if a.running > b.running else b
    return (
        f"up to {_requests(a.running)} ran at once in A and {b.running:.0f} in B: the time per output token of"
        f" {more.name} is that of larger batches, and its time in the queue is shorter"
    )


def _requests(count: float) -> str:
    return "1 request" if round(count) == 1 else f"{count:.0f} requests"


def beside_tpot(because: tuple[str, ...], remark: str | None) -> tuple[str, ...]:
    """The reasons with a remark on batches right after what it explains: the time per output token."""
    if remark is None:
        return because
    title = TITLES["mean_tpot_ms"]
    after = next((at + 1 for at, reason in enumerate(because) if reason.startswith(title)), 0)
    return (*because[:after], remark, *because[after:])


def unsteady(rows: Sequence[ComparisonRow]) -> list[str]:
    """One line when the noise is large and exceeds the change: the machine moved during the experiment."""
    moved = [
        f"{TITLES[row.metric]} by up to {share(row.noise)} (these differ by {percent(row.change)})"
        for row in rows
        if row.metric in PRIMARY
        and row.noise is not None
        and row.change is not None
        and row.noise > max(abs(row.change), UNSTEADY)
    ]
    if not moved:
        return []
    return [
        f"the machine was not steady: two arms of one configuration would differ in {', '.join(moved)}; repeat the"
        " experiment with nothing else running"
    ]


def drifted(runs: Sequence[Run]) -> list[str]:
    """What moved steadily from the first run to the last, beside the difference of the arms."""
    found = []
    for name in DECISIVE:
        arms = [
            [(run.block, run.metrics[name]) for run in runs if run.arm == arm and name in run.metrics] for arm in "ab"
        ]
        values = [[value for _, value in arm] for arm in arms]
        moved = drift(values[0], values[1], [at for arm in arms for at, _ in arm])
        if moved is not None and moved.p <= CHANCE and abs(moved.change) >= MOVED:
            found.append(
                f"the machine drifted: {TITLES[name]} by {percent(moved.change)} from the first run to the last (p"
                f" {moved.p:.3f}); the order of the runs keeps that out of the change, and it is out of the noise"
            )
    return found


def slow_begin(runs: Sequence[Run]) -> list[str]:
    """A warm-up that was too short: in every run the first quarter of the requests took longer than the others."""
    slower = []
    for run in runs:
        times = [row.e2e for row in run.rows if row.e2e is not None and row.error is None]
        begin, rest = times[: len(times) // _BEGIN], times[len(times) // _BEGIN :]
        if len(begin) < _BEGIN or not sum(rest):
            return []
        slower.append(sum(begin) / len(begin) / (sum(rest) / len(rest)) - 1)
    if not slower or min(slower) <= SLOW_BEGIN:
        return []
    return [
        f"the first quarter of every run is slower than the rest of it, by {share(min(slower))} at least: either the"
        " warm-up was too short (--warm-up), or the first prompts are the longer ones; both arms have it alike"
    ]
