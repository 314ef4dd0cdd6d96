"""`kvlab bench`: make the prompts, send them, sum up, write the result file."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from kvlab import __version__, store
from kvlab.core.measure import MetricSample, PoolUse, RequestRow
from kvlab.core.objectives import goodput, meets
from kvlab.core.result import BENCH_SCHEMA, rows_beside
from kvlab.core.vllm_result import LATENCIES
from kvlab.load.datasets import fingerprint
from kvlab.load.preparing import BenchSpec, Prepared, prepare
from kvlab.load.remarks import errors, remarks, statuses
from kvlab.load.runner import run_load
from kvlab.load.server import metrics_of
from kvlab.load.spec import LoadResult, LoadSpec, OnProgress
from kvlab.load.summary import percentile_name, summarise

__all__ = ["BenchResult", "BenchSpec", "Prepared", "bench", "measure", "prepare", "result_file", "save"]


class BenchResult(msgspec.Struct, frozen=True, kw_only=True):
    """`metrics` is the result file: the keys of `vllm bench serve --save-result`, and `kvlab`."""

    metrics: dict[str, object]
    rows: tuple[RequestRow, ...]
    pool: PoolUse
    samples: tuple[MetricSample, ...]
    remarks: tuple[str, ...] = ()


def bench(url: str, spec: BenchSpec, progress: OnProgress | None = None) -> BenchResult:
    """Send the load to the server at `url`. Raises what `prepare` and `run_load` raise."""
    return measure(url, spec, prepare(url, spec, progress), progress)


def measure(url: str, spec: BenchSpec, ready: Prepared, progress: OnProgress | None = None) -> BenchResult:
    """Send prompts that are ready. Raises what `run_load` raises."""
    result = run_load(
        url,
        ready.prompts,
        ready.load(spec.load),
        warm_up=ready.warm_up,
        metrics=metrics_of(spec.engine or ready.server.engine),
        progress=progress,
    )
    return BenchResult(
        metrics=result_file(spec, ready, result),
        rows=result.rows,
        pool=result.pool,
        samples=result.samples,
        remarks=tuple(remarks(spec, ready.prompts, result)),
    )


def result_file(spec: BenchSpec, ready: Prepared, result: LoadResult) -> dict[str, object]:
    """The document to write: vLLM 0.32's keys in vLLM's order, then `kvlab`.

    As there, `latencies` count from sending and `queue_times` from the scheduled start to sending; ttft and e2el, whose
    sums vLLM counts from sending, count from the scheduled start here (`kvlab.latency_from`).
    """
    load, metrics = spec.load, summarise(result.rows, result.duration, spec.percentiles)
    kind = "openai-chat" if load.endpoint == "chat" else "openai"
    document: dict[str, object] = {
        "date": time.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": kind,
        "backend": kind,
        "label": spec.label,
        "model_id": result.model,
        "tokenizer_id": result.model,
        "num_prompts": len(result.rows),
        "request_rate": "inf" if load.rate is None else load.rate,
        "burstiness": "inf" if load.burstiness == float("inf") else load.burstiness,
        "max_concurrency": load.concurrency,
    }
    if load.ramp is not None:
        document["ramp_up_strategy"] = load.ramp.shape
        document["ramp_up_start_rps"], document["ramp_up_end_rps"] = load.ramp.start, load.ramp.end
    for name in ("duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput"):
        document[name] = metrics.get(name)
    document["request_goodput"] = goodput(result.rows, result.duration, spec.objectives)
    for name in ("output_throughput", "total_token_throughput"):
        document[name] = metrics.get(name)
    document["latencies"] = [_between(row.sent, row.done, row) for row in result.rows]
    document["queue_times"] = [row.sent - row.scheduled for row in result.rows]
    for name in ("max_output_tokens_per_s", "max_concurrent_requests"):
        document[name] = metrics.get(name)
    document["rtfx"] = 0.0
    for metric in LATENCIES:
        for part in ("mean", "median", "std", *map(percentile_name, spec.percentiles)):
            document[f"{part}_{metric}_ms"] = metrics.get(f"{part}_{metric}_ms")
    document["kvlab"] = _own(spec, ready, result)
    return document


def _between(start: float, end: float | None, row: RequestRow) -> float | None:
    return None if row.error is not None or end is None else end - start


def _own(spec: BenchSpec, ready: Prepared, result: LoadResult) -> dict[str, object]:
    data: dict[str, object] = msgspec.to_builtins(spec.dataset)
    if isinstance(path := data.get("path"), str):
        data["path"] = Path(path).name
    expected = {prompt.id: prompt.expected_prompt_tokens for prompt in ready.prompts}
    good = [row for row in result.rows if row.error is None]
    return {
        "schema": BENCH_SCHEMA,
        "version": __version__,
        "engine": spec.engine or ready.server.engine,
        "tokenizer": None if spec.tokenizer is None else _plain(spec.tokenizer),
        "dataset": data,
        "data": ready.notes,
        "prompts_sha256": fingerprint(ready.prompts),
        "seed": spec.load.seed,
        "loop": "open" if spec.load.is_open else "closed",
        "arrivals": _arrivals(spec.load),
        "latency_from": "scheduled" if spec.load.is_open else "sent",
        "ignore_eos": spec.load.ignore_eos,
        "temperature": spec.load.temperature,
        "warm_up": spec.warm_up,
        "pool": msgspec.to_builtins(result.pool),
        "tokens_from": sorted({row.tokens_from for row in good if row.tokens_from is not None}),
        "prompt_length_mismatches": sum(
            row.prompt_tokens is not None and expected[row.prompt_id] not in (None, row.prompt_tokens) for row in good
        ),
        "errors": errors(result.rows),
        "statuses": statuses(result.rows),
        "cancelled": result.cancelled,
        "retries": spec.load.retries,
        "goodput": _goodput(spec, result),
        "remarks": remarks(spec, ready.prompts, result),
        "client_cpu_seconds": result.client_cpu_seconds,
        "client": msgspec.to_builtins(result.client),
    }


def _plain(named: str) -> str:
    """A path's last part, and a Hub id as it is."""
    return Path(named).name if Path(named).exists() else named


def _arrivals(load: LoadSpec) -> str:
    """What the times of the requests follow, in one word."""
    if load.arrivals is not None:
        return "data set"
    if load.ramp is not None:
        return "ramp"
    if load.rate is None:
        return "as answered"
    return "Poisson" if load.burstiness == 1 else "gamma"


def _goodput(spec: BenchSpec, result: LoadResult) -> dict[str, object] | None:
    if not spec.objectives:
        return None
    limits = {one.metric: one.limit_ms for one in spec.objectives}
    good = sum(meets(row, spec.objectives) for row in result.rows)
    return {"objectives_ms": limits, "good": good, "requests": len(result.rows)}


def save(result: BenchResult, path: Path) -> Path:
    """Write the result file, and one JSON line per request beside it (`X.json`, `X.requests.jsonl`).

    Each is complete or absent: it is written under another name first. Returns the path of the rows. Raises BadInput
    when the folder cannot be written to.
    """
    store.check_target(path)
    rows = rows_beside(path)
    store.write_atomic(rows, b"".join(msgspec.json.encode(row) + b"\n" for row in result.rows))
    store.write_atomic(path, store.encode(result.metrics))
    return rows
