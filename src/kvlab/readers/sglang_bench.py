"""SGLang's benchmark client: a line for each run, appended (sglang.bench_serving to 0.5, sglang.benchmark.serving).

e2e_latency is vLLM's e2el, total_throughput its total_token_throughput; TTFT and TPOT are vLLM's. ITL is the gap
between two chunks as in vLLM, except with the backends sglang and sglang-native, which divide a gap by the tokens of
the chunk: that keeps SGLang's name. Nothing measured is written as 0, and an open loop without a limit as Infinity.
"""

from __future__ import annotations

import math
from pathlib import Path

from kvlab.core.result import Document, Own, Reader, Result
from kvlab.readers._fields import SHOWN, Streams, completed, number, numbers, present, said, spread

_PARTS = ("mean", "median", "std", "p90", "p95", "p99")
_TIMES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e_latency": "e2el"}
_SHARED = ("duration", "completed", "total_input_tokens", "total_output_tokens", "request_throughput",
           "output_throughput", "max_output_tokens_per_s", "max_concurrent_requests")  # fmt: skip
_DIVIDING = ("sglang", "sglang-native")
_SPLIT = "SGLang's gap between two chunks, divided by the tokens of the chunk"


def _recognises(document: Document) -> bool:
    return "mean_e2e_latency_ms" in document and "backend" in document and "total_output_tokens_retokenized" in document


def _label(document: Document) -> str:
    names = ("tag", "dataset_name", "request_rate", "max_concurrency")
    return said(**{name: document.get(name) for name in names})


def _read(document: Document, path: Path) -> Result:
    lists = _lists(document, path)
    metrics = present({name: number(document, name, path) for name in _SHARED})
    total = number(document, "total_throughput", path)
    if total is not None:
        metrics["total_token_throughput"] = total
    own: dict[str, Own] = {}
    for key, name in _TIMES.items():
        found = spread(document, name, path, keys={part: f"{part}_{key}_ms" for part in _PARTS})
        if not any(found.values()):
            continue
        if key == "itl" and document["backend"] in _DIVIDING:
            own |= {f"itl_ms.{p}": Own(found[at], "ms", _SPLIT) for p in SHOWN if (at := f"{p}_itl_ms") in found}
        else:
            metrics |= found
    return Result(
        format="sglang",
        metrics=metrics,
        load=_load(document, path),
        lists=lists,
        cached=_cached(document, path),
        own=own,
    )


def _load(document: Document, path: Path) -> dict[str, float | str | None]:
    found: dict[str, float | str | None] = {}
    rate = number(document, "request_rate", path)
    if rate is not None:
        found["request_rate"] = "inf" if math.isinf(rate) else rate
    if "max_concurrency" in document:
        found["max_concurrency"] = number(document, "max_concurrency", path)
    return found


def _cached(document: Document, path: Path) -> float | None:
    report = document.get("cache_report")
    percent = number(report, "cache_hit_rate_pct", path) if isinstance(report, dict) else None
    return None if percent is None or not 0 <= percent <= 100 else percent / 100


def _lists(document: Document, path: Path) -> dict[str, tuple[float, ...]]:
    """Per-request values of --output-details; there are no start times, so throughput gets no interval."""
    ttfts, outputs, inputs = (numbers(document, name, path) for name in ("ttfts", "output_lens", "input_lens"))
    gaps = document.get("itls")
    if not isinstance(gaps, list):
        return {}
    return completed(Streams(ttfts, [numbers({"itls": one}, "itls", path) for one in gaps], outputs, inputs))


SGLANG = Reader(name="sglang", title="SGLang's bench_serving", recognises=_recognises, read=_read, label=_label)
