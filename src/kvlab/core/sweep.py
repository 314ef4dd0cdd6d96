"""A sweep of load: what was measured at each point, which load is safe, where the curve bends, what a token costs.

Loads are requests in flight (over "concurrency") or requests a second (over "rate"); times are seconds.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kvlab.core.measure import PoolUse
from kvlab.core.objectives import Objective
from kvlab.core.quality import Interval
from kvlab.core.record import Machine

Over = Literal["rate", "concurrency"]
State = Literal["meets", "fails", "unclear"]


class Estimate(msgspec.Struct, frozen=True):
    """A value with its 95 % interval; no interval where there was too little to draw one from."""

    value: float
    low: float | None = None
    high: float | None = None


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One latency over the completed requests, in seconds."""

    mean: Estimate
    median: Estimate
    p99: Estimate


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the steady time of a run: how long, and what the server gave in it."""

    seconds: float
    output_tokens: float
    input_tokens: float | None
    """Prompt tokens of the requests whose first token came in it; None when the server did not count every prompt."""
    completed: float

    def weighed(self, output_weight: float) -> float | None:
        """Tokens, one of the output as `output_weight` of the prompt; None when prompts were not counted."""
        return None if self.input_tokens is None else self.input_tokens + output_weight * self.output_tokens


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests met every objective: a failed one met none."""

    judged: int
    """Requests that are counted: those of the steady load, not of its rise."""
    met: int
    share: Interval
    """Wilson's interval, wider than 95 % by as much as the repeated looks at one point ask for."""
    independent: float
    """Requests that the sample is worth: neighbours in a queue meet or miss together."""
    rate: float | None
    """Requests a second that met every objective, over the whole run (vLLM's request_goodput)."""
    state: State


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One load, all its rounds together."""

    load: float
    rounds: int
    requests: int
    failed: int
    goodput: Goodput | None
    """None without objectives."""
    ttft: Spread | None
    tpot: Spread | None
    e2e: Spread | None
    request_throughput: Estimate | None
    output_throughput: Estimate | None
    """Tokens a second while the load was steady."""
    total_throughput: Estimate | None
    """Prompt and output tokens a second. None when the server did not count the prompts."""
    in_flight: Estimate | None
    """Requests in the system, by Little's law for a rate."""
    cached_share: float | None
    """Prompt tokens that came from the prefix cache, as the answers' usage counts; None when it does not say."""
    pool: PoolUse
    slices: tuple[Slice, ...]
    per_million_output: Estimate | None = None
    """Dollars per million output tokens with the whole price on them; None without a price."""
    doubts: tuple[str, ...] = ()


class PlanRoom(msgspec.Struct, frozen=True, kw_only=True):
    """The safe load beside what a plan says that the cache holds."""

    max_concurrency: float
    """Requests of `context` tokens at once: the number that the engine prints."""
    context: int | None
    pool_tokens: int
    request_tokens: int
    """Tokens of one request of this sweep when it is done."""
    requests: float
    """Requests of that length that the pool's tokens hold."""
    share: float
    """Of the pool's tokens that the requests in flight hold when all of them are done."""


class Safe(msgspec.Struct, frozen=True, kw_only=True):
    """The highest load that meets the objectives, between the last that does and the first that does not."""

    code: Literal["bracketed", "not_bracketed", "no_objectives"]
    meets_at: float | None
    fails_at: float | None
    unclear_at: tuple[float, ...]
    """Loads at which the most requests did not settle it."""
    in_flight: Estimate | None
    """Requests in flight at `meets_at`."""
    request_rate: Estimate | None
    """Requests a second at `meets_at`."""
    plan: PlanRoom | None
    because: str


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """Where throughput stops to rise with the load."""

    code: Literal["found", "abstains"]
    load: Estimate | None
    output_throughput: Estimate | None
    """Output tokens a second beyond it."""
    slope: Estimate | None
    """Below it throughput rises as this power of the load: 1 is in proportion."""
    method: str
    because: str


class CostWay(msgspec.Struct, frozen=True, kw_only=True):
    """One stated way of laying the price on tokens, in dollars per million of each kind."""

    way: Literal["alone", "shared"]
    output_weight: float | None
    """Price of an output token in prompt tokens; None for "alone"."""
    per_million_output: Estimate | None
    per_million_input: Estimate | None
    text: str


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What tokens cost at the operating point. The ways are alternatives: their numbers never add up."""

    price_per_hour: float
    at: float | None
    """The load of the operating point; None when there is none."""
    ways: tuple[CostWay, ...]
    because: str


class SweepVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in one word, in one sentence, and why."""

    code: Literal["bracketed", "not_bracketed", "knee_found", "no_knee"]
    text: str
    because: tuple[str, ...]


class SweepLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What every request was."""

    input_tokens: int
    output_tokens: int
    endpoint: str
    seed: int


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """`kvlab sweep`."""

    schema: Literal["kvlab/sweep@1"] = "kvlab/sweep@1"
    over: Over
    points: tuple[SweepPoint, ...]
    objectives: tuple[Objective, ...]
    target: float
    """Share of the requests that must meet every objective."""
    level: float
    """Confidence of one look's goodput interval."""
    safe: Safe
    knee: Knee
    cost: Cost | None
    verdict: SweepVerdict
    load: SweepLoad
    source: str
    """What was launched, or the server's address."""
    model: str
    engine: str | None
    sittings: tuple[str, ...]
    """When the work began and was taken up again (UTC, ISO 8601)."""
    finished: str
    kvlab_version: str
    machine: Machine | None = None
    """Where the client ran, and the engine where it was launched."""
