"""Result files of load generators, whoever wrote them, under vLLM's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

BENCH_SCHEMA = "kvlab/bench@1"
"""Of the `kvlab` object in kvlab's own result files."""


def rows_beside(path: Path) -> Path:
    """Where kvlab keeps a row per request beside the result file `path`: X.json, X.requests.jsonl."""
    return path.with_suffix(".requests.jsonl")


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One result file.

    `metrics`: numbers under the names and units of `vllm bench serve --save-result`. `load`: what describes the load
    (num_prompts, request_rate, max_concurrency ...) under vLLM's names. `lists`: what was kept per completed request,
    all of one length: `ttft_ms`, `tpot_ms` (only requests of two tokens and more), `e2el_ms`, and for throughput
    `first_at`, `done_at` (seconds from any fixed moment), `input_tokens`, `output_tokens`. `latency_from` says where
    ttft and e2el start.
    """

    format: str
    metrics: dict[str, float]
    load: dict[str, float | str | None] = {}
    lists: dict[str, tuple[float, ...]] = {}
    latency_from: str = "sent"
    prompts: str | None = None
    """A hash of what was sent: equal hashes make request i of two files a pair."""
    cached: float | None = None
    """Share of the prompt tokens that came from the engine's prefix cache; None when it was not seen."""


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """One format: how its document is recognised, and how it is read (`path` for what lies beside it)."""

    name: str
    title: str
    recognises: Callable[[Mapping[str, object]], bool]
    read: Callable[[Mapping[str, object], Path], Result]
