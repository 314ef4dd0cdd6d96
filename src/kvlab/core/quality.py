"""Answers of two configurations to the same prompts, judged against the noise floor."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvlab.core.gate import Gate, PartFinding
from kvlab.core.interval import Interval as Interval
from kvlab.core.prefix import CounterRow, PrefixBlock, PrefixChurn, PrefixLengths, PrefixSalts


class QualityPrompt(msgspec.Struct, frozen=True):
    """A prompt to answer at temperature 0. `kind` groups prompts in the report."""

    id: str
    kind: str
    prompt: str


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt whose answers part: where, and both texts."""

    prompt_id: str
    kind: str
    prompt: str
    shared_prefix: float
    """Share of the longer answer that is the same from the start, 0..1 (in words)."""
    a: str
    b: str


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Two sets of answers: how many are identical, and how far they run together on average."""

    prompts: int
    failed: int
    identical: Interval
    shared_prefix: Interval


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """`kvlab quality`: the noise floor is arm A against itself after a restart."""

    schema: Literal["kvlab/quality@1"] = "kvlab/quality@1"
    max_tokens: int
    noise_floor: Agreement | None
    """None, like `candidate`, when the agreement part was not run."""
    candidate: Agreement | None
    change: Interval | None = None
    """Shared prefix with B less that of A with itself; None when too few prompts were answered in all three sets."""
    by_kind: dict[str, tuple[float, float]]
    """Kind of prompt -> identical share in the noise floor, and of the candidate."""
    divergences: tuple[Divergence, ...]
    verdict: Literal["within the noise floor", "below the noise floor", "inconclusive", "not run"]
    """Of the answers alone; the whole gate's is in `gate`."""
    because: str
    gate: Gate | None = None
    parts: tuple[PartFinding, ...] = ()
    finished: str | None = None
    """When the gate that stands in a lab of its own was judged, UTC in ISO 8601."""


class PrefixRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the prefix experiment."""

    round: int
    position: int
    """0 is the first request with this prefix (cold), the others are warm."""
    ttft: float
    prompt_tokens: int | None
    cached_tokens: int | None


class Prefix(msgspec.Struct, frozen=True, kw_only=True):
    """`kvlab prefix`: time to first token, cold against warm, and the engine's own cached-token counts."""

    schema: Literal["kvlab/prefix@1"] = "kvlab/prefix@1"
    rounds: int
    requests: tuple[PrefixRequest, ...]
    cold_ttft: Interval
    warm_ttft: Interval
    speedup: Interval
    """cold / warm; 1 means that caching gave nothing."""
    cached_share: float | None
    """Cached tokens of the warm requests / their prompt tokens, as the engine counts; None when it does not say."""
    verdict: Literal["prefix caching works", "prefix caching gives nothing", "inconclusive"]
    because: str
    engine: str | None = None
    """Whose counters were read; None: the server does not say which engine it is, and none was named."""
    lengths: PrefixLengths | None = None
    counters: tuple[CounterRow, ...] = ()
    """The engine's counters against what was sent, for every part that ran."""
    block: PrefixBlock | None = None
    salts: PrefixSalts | None = None
    churn: PrefixChurn | None = None
