"""Vidur's processed traces (https://github.com/microsoft/vidur): num_prefill_tokens, num_decode_tokens, no times."""

from __future__ import annotations

from kvlab.core.trace import TraceReader
from kvlab.traces import _csv

READER = TraceReader(
    "Vidur CSV",
    lambda head: {"num_prefill_tokens", "num_decode_tokens"} <= _csv.header(head),
    lambda path, _: _csv.read(path, "vidur", inputs="num_prefill_tokens", outputs="num_decode_tokens", time=None),
)
