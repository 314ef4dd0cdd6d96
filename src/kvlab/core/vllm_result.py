"""The keys of `vllm bench serve --save-result`, which kvlab's own result files share."""

from __future__ import annotations

import re
from collections.abc import Mapping

LOAD_KEYS = ("num_prompts", "request_rate", "burstiness", "max_concurrency")
"""What describes the load rather than the engine's answer to it."""
LATENCIES = ("ttft", "tpot", "itl", "e2el")
"""First token, per output token, between tokens, whole request: "p99_ttft_ms" in the file."""
_COUNTS = ("duration", "completed", "failed", "total_input_tokens", "total_output_tokens")
_RATES = ("request_throughput", "request_goodput", "output_throughput", "total_token_throughput",
          "max_output_tokens_per_s", "max_concurrent_requests")  # fmt: skip
_SPREAD = re.compile(rf"(mean|median|std|p\d+(\.\d+)?)_({'|'.join(LATENCIES)})_ms")


def is_metric(key: str) -> bool:
    """Whether a key of a result file states a measured number: a count, a rate, or a statistic of latencies."""
    name = key.removesuffix(":")
    return name in _COUNTS or name in _RATES or _SPREAD.fullmatch(name) is not None


def metrics_of(document: Mapping[str, object]) -> dict[str, float]:
    """The numbers of a result file in the file's order, under the names of vLLM 0.32; null is absent.

    Up to 0.8 the goodput's key ended in a colon.
    """
    return {
        key.removesuffix(":"): float(value)
        for key, value in document.items()
        if is_metric(key) and isinstance(value, int | float) and not isinstance(value, bool)
    }


def load_of(document: Mapping[str, object]) -> dict[str, float | str | None]:
    """What the file says about the load; keys that it lacks are absent, null stays None (no limit)."""
    found: dict[str, float | str | None] = {}
    for key in LOAD_KEYS:
        if key in document:
            value = document[key]
            found[key] = value if isinstance(value, int | float | str) else None
    return found
