"""Rows and summaries of a load run, in the words of `vllm bench serve`."""

from __future__ import annotations

from typing import Literal

import msgspec

SUSPECT_HITS = 0.1
"""Share of prompt tokens from the prefix cache from which prompts that share nothing must have been sent before."""


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it went. Times are seconds from the start of the run.

    `ttft` and `e2e` count from `scheduled` (when the request was due), so a late client or a full queue is not hidden;
    in a closed loop `scheduled` is when a worker became free. `error` is None for a request that completed.
    """

    index: int
    prompt_id: str
    scheduled: float
    sent: float
    first: float | None = None
    done: float | None = None
    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None
    itls: tuple[float, ...] = ()
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    tokens_from: Literal["usage", "chunks"] | None = None
    """Who counted `output_tokens`: the server, or this client by the chunks of text that arrived."""
    doubt: str | None = None
    """What the server said of this request and cannot be true; its own counts are then left out."""
    finish_reason: str | None = None
    status: int | None = None
    error: str | None = None
    text: str | None = None
    cancelled: bool = False
    """Whether the client gave the request up on purpose: neither completed nor failed, though `error` says so."""
    retried: tuple[int, ...] = ()
    """Statuses (429, 503) after which the request was sent again; the waits are part of ttft and e2e."""


class MetricSample(msgspec.Struct, frozen=True):
    """What /metrics said at `at` seconds from the start of the run, by kvlab's words; absent words were not seen."""

    at: float
    values: dict[str, float]


class PoolUse(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's own account of a run; None means that it was not seen."""

    peak_kv_used: float | None = None
    peak_running: float | None = None
    peak_waiting: float | None = None
    preemptions: float | None = None
    prefix_hit_rate: float | None = None
    samples: int = 0
