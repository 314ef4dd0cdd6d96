"""What a load run is asked to do, and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.measure import MetricSample, PoolUse, RequestRow

Endpoint = Literal["completions", "chat"]


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One request to send: a text, a list of chat messages, or token ids (exactly one of the three)."""

    id: str
    output_tokens: int
    """Tokens to generate at most (exactly, where the engine honours `ignore_eos`)."""
    text: str | None = None
    messages: tuple[dict[str, object], ...] | None = None
    token_ids: tuple[int, ...] | None = None
    expected_prompt_tokens: int | None = None
    """Prompt tokens that the engine must count for /v1/completions; None when the length is not controlled."""


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How to send: a closed loop (`concurrency` requests in flight) or an open one (`rate` requests a second).

    In an open loop `concurrency` caps the requests in flight when it is given; a request that waits for its turn
    keeps its scheduled start, so the wait counts. Times are seconds.
    """

    concurrency: int | None = None
    rate: float | None = None
    seed: int = 0
    endpoint: Endpoint = "completions"
    model: str | None = None
    """Name that the server knows the model by; None: the first one it lists."""
    ignore_eos: bool = True
    temperature: float | None = 0.0
    timeout: float = 600.0
    """Longest time that one request may take from when it was sent."""
    keep_text: bool = False
    """Keep the generated text in the rows."""
    extra: dict[str, object] = {}
    """Further keys of the request body."""
    sample_every: float = 0.5
    """Pause between two reads of the engine's metrics."""

    def __post_init__(self) -> None:
        if self.concurrency is None and self.rate is None:
            raise BadInput("a load needs a concurrency (closed loop) or a rate (open loop)")
        if self.concurrency is not None and self.concurrency < 1:
            raise BadInput(f"concurrency {self.concurrency} must be at least 1")
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise BadInput(f"rate {self.rate} must be a positive number of requests a second")
        if self.timeout <= 0:
            raise BadInput(f"timeout {self.timeout} must be a positive number of seconds")


class Progress(msgspec.Struct, frozen=True):
    """How far a run is."""

    phase: Literal["prompts", "warm-up", "load"]
    done: int
    total: int
    failed: int = 0

    @property
    def text(self) -> str:
        """What is counted, in words, with the failed requests."""
        failed = f", {self.failed} failed" if self.failed else ""
        return {"prompts": "prompts made", "warm-up": "warm-up requests", "load": "requests"}[self.phase] + failed


OnProgress = Callable[[Progress], None]


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run: one row per request in sending order, `duration` in seconds, what the metrics said."""

    rows: tuple[RequestRow, ...]
    duration: float
    samples: tuple[MetricSample, ...] = ()
    pool: PoolUse = PoolUse()
    model: str
    client_cpu_seconds: float
    """Processor time of this process during the run."""

    @property
    def failed(self) -> int:
        """Requests that did not complete."""
        return sum(row.error is not None for row in self.rows)
