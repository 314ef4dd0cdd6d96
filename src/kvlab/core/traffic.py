"""What `kvlab traffic` says of a workload: lengths, the limit that fits them, prefix reuse, paging, moves."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvlab.core.breaker import Breakers
from kvlab.core.concurrency import Concurrency
from kvlab.core.model import Doubt
from kvlab.core.trace import Counted, LeftOutRows


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a column: percentiles are interpolated linearly between ranks, as numpy does."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: int


class LengthCurve(msgspec.Struct, frozen=True, kw_only=True):
    """How a column is distributed: `shares[i]` of the requests have at most `tokens[i]` tokens. Each step is exact.

    Steps of a curve with many are left out where the one before them lies less than half a point below.
    """

    tokens: tuple[int, ...]
    """Ascending; the shortest and the longest request are among them."""
    shares: tuple[float, ...]
    distinct: int
    """Different counts that occur: steps of the whole curve."""


class LengthCurves(msgspec.Struct, frozen=True, kw_only=True):
    """The curves of the columns that the trace has."""

    input_tokens: LengthCurve
    output_tokens: LengthCurve | None
    total_tokens: LengthCurve | None


class ContextLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The context limit (max model length) that the lengths suggest, and the requests it would refuse or cut."""

    recommended: int
    percentile: float
    truncated: int
    truncated_share: float
    because: str
    holds_all: int | None = None
    """The limit, in whole steps, that cuts no request."""
    model_context: int | None = None
    """Tokens that the model, or the plan, allows a request; None: neither was given."""
    freed_share: float | None = None
    """Of the cache of one request of `model_context` tokens: what one at the limit does not take."""
    freed_bytes: int | None = None
    """The same in bytes, on one GPU."""


class Ideal(msgspec.Struct, frozen=True, kw_only=True):
    """Hit rates of an endless cache that starts empty."""

    block_weighted: float
    token_weighted: float
    request_weighted: float
    """Mean over requests of the share of their blocks that hit."""
    hit_blocks: int
    hit_tokens: int
    unique_blocks: int


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """LRU hits at a capacity. `capacity_bytes` is None without a model."""

    capacity_blocks: int
    capacity_tokens: int
    capacity_bytes: int | None
    hit_rate: float
    """Of all block references."""
    hit_blocks: int
    token_hit_rate: float
    hit_tokens: int
    error: float | None = None
    """How far `hit_rate` of a sample may be off, with about 95 % confidence; None: it is exact."""


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks that the curve was taken from: a share of all, chosen by their hashes (SHARDS)."""

    rate: float
    references: int
    """References that were looked at."""
    blocks: int
    """Different blocks of these."""
    error: float
    """The largest error of the curve's points, as a share of all references."""
    definition: str


class PolicyPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Hits of a policy at a capacity. Belady's needs the future: no policy finds more blocks."""

    policy: str
    capacity_blocks: int
    hit_blocks: int
    hit_rate: float


class TierUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one tier of a chain finds."""

    name: str
    capacity_blocks: int
    capacity_bytes: int | None
    hit_blocks: int
    hit_rate: float
    ttft_saved_seconds: float | None
    """Mean over requests: the prefill that is saved, less the time to fetch; None without speeds."""


class Tiers(msgspec.Struct, frozen=True, kw_only=True):
    """A chain of tiers. Blocks are found one by one, wherever they stand in the prompt."""

    kind: Literal["exclusive", "inclusive"]
    tiers: tuple[TierUse, ...]
    hit_blocks: int
    hit_rate: float
    ttft_saved_seconds: float | None
    definition: str


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """Hits of all replicas together under one way of sending requests to them."""

    name: str
    hit_blocks: int
    hit_rate: float
    busiest: float | None
    """Blocks sent to the busiest replica as a multiple of the mean; None for one cache shared by all."""


class Replicas(msgspec.Struct, frozen=True, kw_only=True):
    """Several replicas with a cache of `capacity_blocks` each."""

    count: int
    capacity_blocks: int
    routing: tuple[Routing, ...]
    definition: str


class Reuse(msgspec.Struct, frozen=True, kw_only=True):
    """Prefix reuse of the window that was measured."""

    block_size: int
    requests: int
    blocks: int
    tokens: int
    ideal: Ideal
    curve: tuple[CurvePoint, ...]
    definition: str
    sampled: Sampled | None = None
    """None: every reference was counted, and the figures are exact."""
    policies: tuple[PolicyPoint, ...] = ()
    tiers: Tiers | None = None
    replicas: Replicas | None = None
    asked_blocks: tuple[int, ...] = ()
    """Sizes of caches that were asked for; they are on the curve."""


class PoolLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The traffic on a pool of that many blocks, as a simulation of an engine's scheduler serves it. In seconds."""

    pool_blocks: int
    pool_bytes: int | None
    finished: int
    too_large: int
    """Requests that no pool of this size can hold; they are left out."""
    waited: Lengths
    """From arrival to admission, in milliseconds."""
    ttft: Lengths
    """From arrival to the first token, in milliseconds."""
    preemptions: int
    preempted_requests: int
    recomputed_tokens: int
    """Prompt and answer tokens computed again after a preemption."""
    hit_tokens: int | None
    """Prompt tokens taken from the cache when requests were first admitted; None where the trace does not tell."""
    most_running: int
    mean_use: float
    """Share of the pool that requests hold, averaged over time."""
    seconds: float
    """From the first arrival to the last answer."""


class UnderLoad(msgspec.Struct, frozen=True, kw_only=True):
    """`--pool`: what pools of several sizes make of this traffic."""

    block_size: int
    pools: tuple[PoolLoad, ...]
    definition: str
    engine: str = "vllm"
    """Whose scheduler was simulated."""
    preemption_word: str = "preemptions"
    """What that engine calls them."""


class PagingLine(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that is reserved and not used, averaged over decode steps."""

    scheme: str
    waste: float


class TrafficMove(msgspec.Struct, frozen=True, kw_only=True):
    """Something to change, what it gives on this traffic, and why."""

    code: str
    """Its page is the docstring of the file of that name in workload/moves."""
    do: str
    gain: str
    because: str
    saves: float | None = None
    """Share of the prompt tokens that need not be computed; None: the move is about memory."""


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """`kvlab traffic`. None: the trace does not say."""

    schema: Literal["kvlab/traffic@1"] = "kvlab/traffic@1"
    files: tuple[str, ...]
    format: str
    requests: int
    span_seconds: float | None
    requests_per_second: float | None
    input_tokens: Lengths
    output_tokens: Lengths | None
    total_tokens: Lengths | None
    context: ContextLimit
    reuse: Reuse | None
    paging: tuple[PagingLine, ...]
    moves: tuple[TrafficMove, ...]
    left_out: LeftOutRows
    load: UnderLoad | None = None
    """The traffic on a pool, simulated; None: not asked for."""
    breakers: Breakers | None = None
    """What keeps prompts from sharing their prefixes; None: the log holds no text, or nothing counted its tokens."""
    counted: Counted = "log"
    """Who counted the prompt tokens; an estimate is a rule of thumb (4 bytes of text a token)."""
    doubts: tuple[Doubt, ...] = ()
    concurrency: Concurrency | None = None
    """Requests at once, and what a pool has to spare; None: no times, or no speed, are known."""
    length_curves: LengthCurves | None = None
    """How the lengths are distributed; None: a document that was written before they were kept."""
