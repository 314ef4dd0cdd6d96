"""guidellm's report (benchmarks.json): every request of every benchmark, one after the other.

https://github.com/vllm-project/guidellm. The lengths are those that the server counted, where it did.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.trace import Reading, Trace, TraceReader
from kvlab.traces._lines import opened
from kvlab.traces._rows import MOST_TOKENS, Rows

_MOST = 1 << 30
"""Bytes of a report, which is one JSON document."""
_HEAD = re.compile(r'\s*\{.*"(guidellm_version|generative_benchmark)"', re.DOTALL)


class _Request(msgspec.Struct):
    request_start_time: float | None = None
    start_time: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None


class _Requests(msgspec.Struct):
    successful: list[_Request] = []
    incomplete: list[_Request] = []
    errored: list[_Request] = []


class _Benchmark(msgspec.Struct):
    requests: _Requests


class _Report(msgspec.Struct):
    benchmarks: list[_Benchmark]


def _read(path: Path, _: Reading) -> Trace:
    rows = Rows(path)
    for number, benchmark in enumerate(_report(path).benchmarks, 1):
        requests = benchmark.requests
        unsuccessful = (("incomplete", requests.incomplete), ("errored", requests.errored))
        for at, request in enumerate(requests.successful, 1):
            start = request.request_start_time if request.request_start_time is not None else request.start_time
            counts = (request.prompt_tokens, request.output_tokens)
            if start is None or any(count is None or not 0 <= count <= MOST_TOKENS for count in counts):
                rows.leave_out(f"benchmark {number}, request {at:,}", "no start, or no numbers of tokens")
            else:
                rows.add(start, request.prompt_tokens or 0, request.output_tokens or 0)
        for word, others in unsuccessful:
            for at, _request in enumerate(others, 1):
                rows.leave_out(f"benchmark {number}, {word} request {at:,}", "it did not finish")
    return _by_time(rows.trace("guidellm", 1.0))


def _by_time(trace: Trace) -> Trace:
    """Requests as they began: the report lists them as they ended."""
    import numpy as np

    assert trace.arrivals is not None
    assert trace.outputs is not None
    order = np.argsort(trace.arrivals, kind="stable")
    return trace._replace(
        inputs=trace.inputs[order], outputs=trace.outputs[order], arrivals=trace.arrivals[order], clock_jumps=0
    )


def _report(path: Path) -> _Report:
    try:
        with opened(path) as file:
            content = file.read(_MOST + 1)
        if len(content) > _MOST:
            raise BadInput(f"{path} is longer than {_MOST >> 20} MiB; write guidellm's report with fewer requests")
        return msgspec.json.decode(content, type=_Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError, EOFError, ValueError) as problem:
        raise BadInput(f"{path} is no report of guidellm: {str(problem)[:120]}") from None


READER = TraceReader("guidellm's report", lambda head: _HEAD.match(head) is not None, _read)
