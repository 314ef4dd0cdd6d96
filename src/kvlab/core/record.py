"""The record: every step of one experiment in one versioned envelope, from which every report is rendered."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvlab.core.check import Check
from kvlab.core.comparison import ComparisonRow
from kvlab.core.measure import MetricSample, PoolUse
from kvlab.core.plan import Plan
from kvlab.core.quality import Prefix, Quality


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where the numbers were made: no host name, no user, no path."""

    system: str
    processor: str
    cores: int
    memory_bytes: int
    python: str
    accelerators: tuple[str, ...] = ()


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent: the same in every run of an experiment."""

    dataset: str
    prompts: int
    input_tokens: int | None
    """Tokens per prompt when all have the same length."""
    output_tokens: int | None
    """Tokens to generate; None: as many as the data set recorded for each answer."""
    concurrency: int | None
    """Closed loop: requests in flight."""
    rate: float | None
    """Open loop: requests a second."""
    burstiness: float | None = 1.0
    """Shape of the gamma distribution of an open loop's gaps: 1 is Poisson, less is bursts. None: all gaps alike, the
    shape without end that JSON cannot hold."""
    endpoint: Literal["completions", "chat"] = "completions"
    turns: Literal["first", "all"] = "first"
    """"all": `prompts` are conversations, each with a request for every turn."""
    seed: int


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """The few numbers of a request that the plots need; times in seconds."""

    scheduled: float
    ttft: float | None
    tpot: float | None
    e2e: float | None
    prompt_tokens: int | None
    output_tokens: int | None
    error: str | None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One load run of one arm; `metrics` holds the keys of vLLM's result file (mean_ttft_ms, output_throughput ...)."""

    block: int
    arm: Literal["a", "b"]
    folder: str
    """Where its files lie, relative to the lab."""
    metrics: dict[str, float]
    completed: int
    failed: int
    rows: tuple[RunRow, ...]
    samples: tuple[MetricSample, ...]
    pool: PoolUse


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration: its plan, and the plan against the engine's own log."""

    label: str
    plan: Plan
    check: Check | None


class PoolPeak(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the load ever filled the pool. None: the engine does not say."""

    a_peak_usage: float | None
    b_peak_usage: float | None
    filled: bool | None


class AbVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """B against A in one word, in one sentence, and why."""

    code: Literal["better", "worse", "no_difference_seen", "inconclusive"]
    text: str
    because: tuple[str, ...]


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What an experiment that may stop early found after a block."""

    blocks: int
    """Blocks until then."""
    code: Literal["better", "worse", "no_difference_seen", "inconclusive"]
    settled: bool
    """Whether throughput and end-to-end latency are both decided: then it stops."""


class More(msgspec.Struct, frozen=True, kw_only=True):
    """What would settle an inconclusive verdict, as an estimate: the noise is known from few runs."""

    requests: int
    low: int
    high: int | None
    """At the ends of the noise's 95 % interval. None: more than a thousand blocks."""
    metric: str
    """The metric that needs the most."""
    text: str


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """The order in which the arms ran, and what was saved by stopping."""

    order: str
    """ "A B B A" """
    blocks: int
    most_blocks: int
    sequential: bool
    looks: tuple[Look, ...] = ()
    requests: int = 0
    """Measured requests that were sent, all runs together."""
    requests_saved: int = 0
    """Those that the most blocks would have taken besides."""
    more: More | None = None
    """None: settled, or nothing to estimate it from."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """One number that plan and load foretell, written down before the first run, and what was then seen."""

    arm: Literal["a", "b"]
    name: str
    unit: str
    low: float
    high: float
    because: str
    seen: float | None = None
    hit: bool | None = None
    """Whether what was seen lies within the range. None: not seen."""


class Ab(msgspec.Struct, frozen=True, kw_only=True):
    """`kvlab ab`: what the contract promises."""

    schema: Literal["kvlab/ab@1"] = "kvlab/ab@1"
    arms: dict[str, Arm]
    performance: tuple[ComparisonRow, ...]
    quality: Quality | None
    prefix: Prefix | None
    pool: PoolPeak
    verdict: AbVerdict
    design: Design | None = None
    """None: a record from before kvlab kept it, which ran A B B A."""
    forecast: tuple[Forecast, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one lab: kept as record.json, rendered as report.html."""

    schema: Literal["kvlab/record@1"] = "kvlab/record@1"
    title: str
    created: str
    """UTC, ISO 8601."""
    sittings: tuple[str, ...] = ()
    """When the work began and was taken up again after an interruption."""
    finished: str | None
    kvlab_version: str
    command: tuple[str, ...]
    machine: Machine
    load: Load | None
    runs: tuple[Run, ...]
    ab: Ab | None
