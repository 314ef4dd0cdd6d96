"""`kvlab bench`: make the prompts, send them, sum up, write the result file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from kvlab import __version__, store
from kvlab.core.errors import BadInput
from kvlab.core.measure import MetricSample, PoolUse, RequestRow
from kvlab.core.result import BENCH_SCHEMA, rows_beside
from kvlab.core.vllm_result import LATENCIES
from kvlab.load import clock
from kvlab.load.client import Connections
from kvlab.load.datasets import Dataset, PromptsFile, RandomTokens, SharedPrefix, fingerprint, read_prompts
from kvlab.load.exact import Tokenizer, random_prompts, shared_prefix_prompts
from kvlab.load.runner import run_load
from kvlab.load.server import Server, contact, metrics_of, tokens_of
from kvlab.load.spec import LoadResult, LoadSpec, OnProgress, Progress, Prompt
from kvlab.load.summary import percentile_name, summarise

_WARM_UP_TEXT = "Describe the weather of a small island in a few plain sentences."
_SUSPECT_HITS = 0.1
"""Hit rate from which prompts that share nothing must have been sent before."""


class BenchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to send and how. `engine` None: the one that the server says it is."""

    dataset: Dataset
    load: LoadSpec
    num_prompts: int | None = None
    """None: every prompt of a file; the other data sets need a number."""
    engine: str | None = None
    warm_up: int = 4
    """Requests sent first and discarded. They share no prefix with the measured ones."""
    percentiles: tuple[float, ...] = (99.0,)
    label: str | None = None


class BenchResult(msgspec.Struct, frozen=True, kw_only=True):
    """`metrics` is the result file: the keys of `vllm bench serve --save-result`, and `kvlab`."""

    metrics: dict[str, object]
    rows: tuple[RequestRow, ...]
    pool: PoolUse
    samples: tuple[MetricSample, ...]
    remarks: tuple[str, ...] = ()


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts ready to be sent, the same for every run of an experiment."""

    server: Server
    prompts: tuple[Prompt, ...]
    warm_up: tuple[Prompt, ...]


def bench(url: str, spec: BenchSpec, progress: OnProgress | None = None) -> BenchResult:
    """Send the load to the server at `url`. Raises what `prepare` and `run_load` raise."""
    ready = prepare(url, spec, progress)
    result = run_load(
        url,
        ready.prompts,
        spec.load,
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


def prepare(url: str, spec: BenchSpec, progress: OnProgress | None = None) -> Prepared:
    """Make the prompts, with the server's own tokenizer where lengths are to be exact.

    Raises BadInput for a data set that cannot be made, ServerRefused when the server does not answer.
    """
    data = spec.dataset
    if spec.warm_up < 0:
        raise BadInput(f"warm-up {spec.warm_up} must not be negative")
    known = _from_file(data, spec) if isinstance(data, PromptsFile) else None

    async def main(_: Callable[[], float]) -> Prepared:
        async with Connections(spec.load.timeout, url) as connections:
            server = await contact(connections.fresh, url, spec.load.model)
            if known is not None:
                return Prepared(server=server, prompts=known, warm_up=_plain_warm_up(spec))
            assert not isinstance(data, PromptsFile)
            tokenizer = Tokenizer(connections.fresh, server, tokens_of(spec.engine or server.engine))
            prompts, warm_up = await _exact(tokenizer, data, spec, progress)
        return Prepared(server=server, prompts=prompts, warm_up=warm_up)

    return clock.run(main)


def _from_file(data: PromptsFile, spec: BenchSpec) -> tuple[Prompt, ...]:
    found = read_prompts(Path(data.path), data.output_tokens, spec.load.endpoint)
    wanted = len(found) if spec.num_prompts is None else spec.num_prompts
    if not 1 <= wanted <= len(found):
        # Sending a prompt twice would measure the prefix cache.
        raise BadInput(f"{data.path} holds {len(found)} prompts, {wanted} were asked for")
    return found[:wanted]


def _plain_warm_up(spec: BenchSpec) -> tuple[Prompt, ...]:
    return tuple(Prompt(id=f"warm-up {i}", text=_WARM_UP_TEXT, output_tokens=16) for i in range(spec.warm_up))


async def _exact(
    tokenizer: Tokenizer, data: RandomTokens | SharedPrefix, spec: BenchSpec, progress: OnProgress | None
) -> tuple[tuple[Prompt, ...], tuple[Prompt, ...]]:
    count = spec.num_prompts
    if count is None or count < 1:
        raise BadInput("a number of prompts is needed, at least 1")
    seed = str(spec.load.seed)

    def done(made: int) -> None:
        if progress is not None:
            progress(Progress("prompts", made, count))

    if isinstance(data, RandomTokens):
        prompts = await random_prompts(tokenizer, data, count, seed, done)
        tokens = data.input_tokens
    else:
        prompts = await shared_prefix_prompts(tokenizer, data, count, seed, done)
        tokens = data.prefix_tokens + data.suffix_tokens
    plain = RandomTokens(input_tokens=tokens, output_tokens=data.output_tokens)
    warm_up = await random_prompts(tokenizer, plain, spec.warm_up, f"{seed} warm-up", lambda made: None)
    if spec.load.endpoint == "chat":
        # The chat template adds tokens of its own.
        prompts = tuple(msgspec.structs.replace(prompt, expected_prompt_tokens=None) for prompt in prompts)
    return prompts, warm_up


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
        "burstiness": 1.0,
        "max_concurrency": load.concurrency,
    }
    for name in ("duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput"):
        document[name] = metrics.get(name)
    document["request_goodput"] = None
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
    if isinstance(spec.dataset, PromptsFile):
        data["path"] = Path(spec.dataset.path).name
    expected = {prompt.id: prompt.expected_prompt_tokens for prompt in ready.prompts}
    good = [row for row in result.rows if row.error is None]
    return {
        "schema": BENCH_SCHEMA,
        "version": __version__,
        "engine": spec.engine or ready.server.engine,
        "dataset": data,
        "prompts_sha256": fingerprint(ready.prompts),
        "seed": spec.load.seed,
        "loop": "closed" if spec.load.rate is None else "open",
        "latency_from": "sent" if spec.load.rate is None else "scheduled",
        "ignore_eos": spec.load.ignore_eos,
        "temperature": spec.load.temperature,
        "warm_up": spec.warm_up,
        "pool": msgspec.to_builtins(result.pool),
        "tokens_from": sorted({row.tokens_from for row in good if row.tokens_from is not None}),
        "prompt_length_mismatches": sum(
            row.prompt_tokens is not None and expected[row.prompt_id] not in (None, row.prompt_tokens) for row in good
        ),
        "errors": _errors(result.rows),
        "remarks": remarks(spec, ready.prompts, result),
        "client_cpu_seconds": result.client_cpu_seconds,
    }


def remarks(spec: BenchSpec, prompts: Sequence[Prompt], result: LoadResult) -> list[str]:
    """What a reader of the numbers must know before believing them."""
    found = _reused(spec.dataset, prompts)
    hits = result.pool.prefix_hit_rate
    if isinstance(spec.dataset, RandomTokens) and hits is not None and hits > _SUSPECT_HITS:
        found.append(
            f"{hits:.0%} of the prompt tokens came from the prefix cache, and these prompts share nothing: the server"
            " was sent them before. Restart it, or give another --seed"
        )
    if doubted := [row.doubt for row in result.rows if row.doubt is not None]:
        found.append(
            f"{len(doubted)} of {len(result.rows)} answers state numbers that cannot be ({doubted[0]}): they are left"
            " out, and output tokens counted by the chunks that arrived"
        )
    if result.failed:
        found.append(f"{result.failed} of {len(result.rows)} requests failed; the latencies are those of the others")
    return found


def _reused(data: Dataset, prompts: Sequence[Prompt]) -> list[str]:
    """What is sent more than once: a server that caches prefixes answers it sooner than it would answer new text."""
    different = len({(prompt.text, prompt.token_ids, repr(prompt.messages)) for prompt in prompts})
    if different < len(prompts):
        return [
            f"{len(prompts) - different} of {len(prompts)} requests repeat a prompt of this run: a prefix cache answers"
            " them sooner, so times to first token flatter the server; send each prompt once"
        ]
    if isinstance(data, SharedPrefix) and len(prompts) > data.prefixes:
        return [
            f"{len(prompts)} requests share {data.prefixes} prefix{'es' * (data.prefixes > 1)} of"
            f" {data.prefix_tokens:,} tokens by design: most times to first token are those of a cached prefix"
        ]
    return []


def _errors(rows: Sequence[RequestRow]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        if row.error is not None:
            found[row.error] = found.get(row.error, 0) + 1
    return dict(sorted(found.items(), key=lambda item: -item[1])[:20])


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
