"""genai-perf's NAME_genai_perf.json and .csv (genai-perf 0.0.16).

Its inter_token_latency is a request's (latency - TTFT) / (output tokens - 1), which vLLM calls TPOT. It keeps no
version, no duration and no failed requests, and its CSV rounds to 0.01. Early versions wrote nanoseconds.
"""

from __future__ import annotations

from pathlib import Path

from kvlab.core.result import Document, Own, Reader, Result
from kvlab.readers._fields import number, section
from kvlab.readers._profile import from_table, is_table, latency, scalar, sums, throughput

_TIMES = {"time_to_first_token": "ttft", "inter_token_latency": "tpot", "request_latency": "e2el"}
_PER_USER = "genai-perf's output tokens a second of one request after its first token, averaged over requests"


def _recognises(document: Document) -> bool:
    if is_table(document):
        return not sums(document)
    return "request_latency" in document and "subcommand" in section(document, "input_config")


def _read(document: Document, path: Path) -> Result:
    table = is_table(document)
    document = from_table(document, path) if table else document
    metrics, own = throughput(document, path), {}
    for key, name in _TIMES.items():
        metrics |= latency(document, key, name, path)
    per_user = scalar(document, "output_token_throughput_per_user", path)
    if per_user is not None:
        own["output_token_throughput_per_user.avg"] = Own(per_user, "tokens/s", _PER_USER, higher_is_better=True)
    return Result(
        format="genai-perf",
        metrics=metrics,
        load={} if table else _load(section(document, "input_config"), path),
        own=own,
    )


def _load(config: Document, path: Path) -> dict[str, float | str | None]:
    stimulus = section(section(config, "perf_analyzer"), "stimulus")
    concurrency, rate = number(stimulus, "concurrency", path), number(stimulus, "request_rate", path)
    if concurrency is not None:
        return {"max_concurrency": concurrency, "request_rate": "inf"}
    return {} if rate is None else {"request_rate": rate}


GENAI_PERF = Reader(name="genai-perf", title="genai-perf", recognises=_recognises, read=_read)
