"""One load run on a started engine, kept in a lab: the result file, a row per request, and the run for the record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from kvlab import engines
from kvlab.core.errors import BadInput
from kvlab.core.measure import MetricSample, PoolUse, RequestRow
from kvlab.core.plan import Plan
from kvlab.core.record import Load, Run, RunRow
from kvlab.lab import Lab
from kvlab.launch import DYING_SECONDS, Server
from kvlab.load.bench import BenchResult, BenchSpec, Prepared, result_file, save
from kvlab.load.runner import run_load
from kvlab.load.spec import LoadResult, LoadSpec, Progress


class Placed(NamedTuple):
    """Which run of which arm it is, and its folder in the lab."""

    block: int
    arm: Literal["a", "b"]
    folder: str


def load_spec(load: Load) -> LoadSpec:
    """How a recorded load is sent: in a closed loop, at a rate, or, with neither, at the data set's own times.

    Raises BadInput for a load that contradicts itself.
    """
    if load.burstiness == float("inf"):
        raise BadInput("a file cannot hold a burstiness of inf; give None, which means the same")
    own = load.concurrency is None and load.rate is None
    return LoadSpec(
        concurrency=load.concurrency,
        rate=load.rate,
        burstiness=float("inf") if load.burstiness is None else load.burstiness,
        arrivals=() if own else None,
        seed=load.seed,
        endpoint=load.endpoint,
    )


def measured(
    server: Server,
    ready: Prepared,
    spec: BenchSpec,
    plan: Plan,
    place: tuple[Lab, Placed],
    progress: Callable[[Progress], None],
) -> Run:
    """Sends the load, writes result.json and result.requests.jsonl, and gives the run, which is not saved yet.

    Raises EngineFailed when the engine died meanwhile: what was measured then ends somewhere in the run.
    """
    lab, (block, arm, folder) = place
    result = run_load(
        server.url,
        ready.prompts,
        ready.load(spec.load),
        warm_up=ready.warm_up,
        metrics=engines.metric_map(server.command.engine),
        progress=progress,
    )
    if gone := server.died(DYING_SECONDS if result.failed else 0):
        raise gone
    result = with_planned_pool(result, plan)
    document = result_file(spec, ready, result)
    bench = BenchResult(metrics=document, rows=result.rows, pool=result.pool, samples=result.samples)
    save(bench, lab.path(f"{folder}/result.json"))
    return Run(
        block=block,
        arm=arm,
        folder=folder,
        metrics={name: float(value) for name, value in document.items() if isinstance(value, int | float)},
        completed=len(result.rows) - result.failed,
        failed=result.failed,
        rows=tuple(_run_row(row) for row in result.rows),
        samples=result.samples,
        pool=result.pool,
    )


def _run_row(row: RequestRow) -> RunRow:
    return RunRow(
        scheduled=row.scheduled,
        ttft=row.ttft,
        tpot=row.tpot,
        e2e=row.e2e,
        prompt_tokens=row.prompt_tokens,
        output_tokens=row.output_tokens,
        error=row.error,
    )


def with_planned_pool(result: LoadResult, plan: Plan) -> LoadResult:
    """Cache use as a share of the planned pool, of an engine that counts tokens and has no such gauge."""
    samples = tuple(_with_ratio(sample, plan) for sample in result.samples)
    return msgspec.structs.replace(result, samples=samples, pool=_with_peak(result.pool, samples))


def _with_ratio(sample: MetricSample, plan: Plan) -> MetricSample:
    used = sample.values.get("kv_used_tokens")
    if used is None or "kv_used_ratio" in sample.values or plan.capacity is None:
        return sample
    return MetricSample(sample.at, sample.values | {"kv_used_ratio": used / plan.capacity.tokens})


def _with_peak(pool: PoolUse, samples: tuple[MetricSample, ...]) -> PoolUse:
    ratios = [sample.values["kv_used_ratio"] for sample in samples if "kv_used_ratio" in sample.values]
    return msgspec.structs.replace(pool, peak_kv_used=max(ratios)) if ratios else pool
