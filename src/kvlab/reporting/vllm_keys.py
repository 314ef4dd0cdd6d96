"""The latency keys of `vllm bench serve --save-result` ("p99_ttft_ms") in the order in which people read them."""

from __future__ import annotations

from typing import Final

LATENCIES: Final = (
    ("ttft", "time to first token"),
    ("tpot", "time per output token"),
    ("itl", "between tokens"),
    ("e2el", "whole request"),
)
STATISTICS: Final = ("mean", "median", "std", "p99")
