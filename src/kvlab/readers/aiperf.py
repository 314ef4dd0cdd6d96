"""AIPerf's profile_export_aiperf.json and .csv, with profile_export.jsonl beside it for the requests (AIPerf 0.13).

Its inter_token_latency is a request's (latency - TTFT) / (output tokens - 1), which vLLM calls TPOT; with
--per-chunk-usage it divides by the output tokens less those of the first chunk, which nobody else does. Its
inter_chunk_latency is vLLM's ITL: the gaps between chunks, of all requests together. With --network-latency-* a round
trip is taken off the times, which then keep AIPerf's names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from kvlab import store
from kvlab.core.errors import BadInput
from kvlab.core.result import Document, Own, Reader, Result
from kvlab.readers._fields import SHOWN, columns, number, objects, section
from kvlab.readers._profile import from_table, is_table, latency, scalar, sums, throughput

_TIMES = {
    "time_to_first_token": "ttft",
    "inter_token_latency": "tpot",
    "inter_chunk_latency": "itl",
    "request_latency": "e2el",
}
_PART = "AIPerf's inter_token_latency divided by the output tokens less those of the first chunk (--per-chunk-usage)"
_LESS = "AIPerf's time less a round trip of the network (--network-latency-*)"


def _recognises(document: Document) -> bool:
    if is_table(document):
        return sums(document)
    return "aiperf_version" in document or ("input_config" in document and "was_cancelled" in document)


def _read(document: Document, path: Path) -> Result:
    table = is_table(document)
    document = from_table(document, path) if table else document
    metrics = throughput(document, path)
    own: dict[str, Own] = {}
    reasons = _reasons(section(document, "input_config"))
    for key, name in _TIMES.items():
        found = latency(document, key, name, path)
        if name in reasons:
            kept = {part: found[name_of] for part in SHOWN if (name_of := f"{part}_{name}_ms") in found}
            own |= {f"{key}_ms.{part}": Own(value, "ms", reasons[name]) for part, value in kept.items()}
        else:
            metrics |= found
    per_user = scalar(document, "output_token_throughput_per_user", path)
    if per_user is not None:
        means = "AIPerf's output tokens a second of one request after its first token, averaged over requests"
        own["output_token_throughput_per_user.avg"] = Own(per_user, "tokens/s", means, higher_is_better=True)
    return Result(
        format="aiperf",
        metrics=metrics,
        load={} if table else _load(section(document, "input_config"), path),
        lists={} if reasons else _lists(path, metrics.get("completed")),
        own=own,
    )


def _reasons(config: Document) -> dict[str, str]:
    """Which of vLLM's names do not fit, and why."""
    found = {}
    if section(config, "endpoint").get("per_chunk_usage"):
        found["tpot"] = _PART
    if section(config, "network_latency").get("enabled"):
        found |= dict.fromkeys(("ttft", "e2el"), _LESS)
    return found


def _load(config: Document, path: Path) -> dict[str, float | str | None]:
    phases = [phase for phase in objects(config.get("phases")) if phase.get("kind") == "profiling"]
    phase = phases[0] if len(phases) == 1 else section(config, "loadgen")  # the older spelling
    found: dict[str, float | str | None] = {}
    for name, keys in (
        ("num_prompts", ("requests", "request_count")),
        ("request_rate", ("rate", "request_rate")),
        ("max_concurrency", ("concurrency",)),
    ):
        value = next((v for key in keys if (v := number(phase, key, path)) is not None), None)
        if value is not None:
            found[name] = value
    if "max_concurrency" in found and "request_rate" not in found:
        found["request_rate"] = "inf"
    return found


def _lists(path: Path, completed: float | None) -> dict[str, tuple[float, ...]]:
    """Values by request; empty when the requests beside are not those of this run."""
    beside = path.with_name(path.stem.removesuffix("_aiperf") + ".jsonl")
    if beside == path or not beside.is_file():
        return {}
    rows = list(_rows(beside))
    lists = columns(rows, ("ttft_ms", "e2el_ms", "first_at", "done_at"), ("tpot_ms", "input_tokens", "output_tokens"))
    return lists if completed is None or len(lists.get("ttft_ms", ())) == completed else {}


def _rows(path: Path) -> Iterator[dict[str, float | None]]:
    for at, line in enumerate(store.read_bytes(path, "file of requests").splitlines(), 1):
        try:
            row: object = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise BadInput(f"{path} line {at} is not a request: {problem}; copy the file again") from None
        if not isinstance(row, dict):
            raise BadInput(f"{path} line {at} is not a request; copy the file again")
        about = section(row, "metadata")
        if about.get("benchmark_phase") != "profiling" or row.get("error") is not None:
            continue
        metrics = section(row, "metrics")

        def value(name: str, metrics: Document = metrics, where: Path = path) -> float | None:
            return number(section(metrics, name), "value", where)

        start, ttft, whole = (
            number(about, "request_start_ns", path),
            value("time_to_first_token"),
            value("request_latency"),
        )
        known = start is not None and ttft is not None and whole is not None
        yield {
            "ttft_ms": ttft,
            "tpot_ms": value("inter_token_latency"),
            "e2el_ms": whole,
            "first_at": (start or 0) / 1e9 + (ttft or 0) / 1e3 if known else None,
            "done_at": (start or 0) / 1e9 + (whole or 0) / 1e3 if known else None,
            "input_tokens": value("input_sequence_length"),
            "output_tokens": value("output_sequence_length"),
        }


AIPERF = Reader(name="aiperf", title="AIPerf", recognises=_recognises, read=_read)
