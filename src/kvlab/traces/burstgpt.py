"""BurstGPT (https://github.com/HPMLL/BurstGPT): Timestamp in seconds, Request tokens, Response tokens."""

from __future__ import annotations

from kvlab.core.trace import TraceReader
from kvlab.traces import _csv

READER = TraceReader(
    "BurstGPT CSV",
    lambda head: {"Timestamp", "Request tokens", "Response tokens"} <= _csv.header(head),
    lambda path, _: _csv.read(path, "burstgpt", inputs="Request tokens", outputs="Response tokens", time="Timestamp"),
)
