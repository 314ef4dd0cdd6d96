"""AIPerf's record of each request (profile_export.jsonl): when it began, prompt and answer tokens.

https://docs.nvidia.com/aiperf/tutorials/metrics-analysis/working-with-profile-export-files
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvlab.core.trace import Reading, Trace, TraceReader
from kvlab.traces._rows import MOST_TOKENS, Moment, Rows, json_rows, keys


class _Metadata(msgspec.Struct):
    request_start_ns: Moment
    benchmark_phase: str | None = None


class _Value(msgspec.Struct):
    value: float


class _Metrics(msgspec.Struct):
    input_sequence_length: _Value | float | None = None
    output_sequence_length: _Value | float | None = None


class _Row(msgspec.Struct):
    metadata: _Metadata
    metrics: _Metrics
    error: msgspec.Raw = msgspec.Raw(b"null")


def _read(path: Path, _: Reading) -> Trace:
    rows = Rows(path)
    for where, row in json_rows(path, _Row, rows):
        inputs, outputs = (
            _tokens(value) for value in (row.metrics.input_sequence_length, row.metrics.output_sequence_length)
        )
        if bytes(row.error) != b"null":
            rows.leave_out(where, "the request failed")
        elif row.metadata.benchmark_phase == "warmup":
            rows.leave_out(where, "a request of the warm-up")
        elif inputs is None or outputs is None:
            rows.leave_out(where, "its lengths are not stated")
        else:
            rows.add(row.metadata.request_start_ns, inputs, outputs)
    return rows.trace("aiperf", 1e-9)


def _tokens(stated: _Value | float | None) -> int | None:
    """A whole number of tokens; None when none is stated."""
    number = stated.value if isinstance(stated, _Value) else stated
    if number is None or not 0 <= number <= MOST_TOKENS or number != int(number):
        return None
    return int(number)


READER = TraceReader("AIPerf's per-request export", lambda head: {"metadata", "metrics"} <= keys(head), _read)
