"""What the further parts of the prefix experiment find: lengths, counters, eviction, block size, salts."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvlab.core.interval import Interval

Told = Literal["agrees", "differs", "not seen"]


class LengthPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One prefix length. Times in seconds; one value a round, a round's warm requests counting as their mean."""

    prefix_tokens: int
    """Tokens that the prompts share, as they were made; with a tokenizer, exactly."""
    prompt_tokens: int | None
    """Tokens of a whole prompt as the engine counts them."""
    cold: tuple[float, ...]
    """Time to first token of each round's first request."""
    warm: tuple[float, ...]
    """Geometric mean of those of the round's other requests."""
    cold_ttft: Interval
    warm_ttft: Interval
    speedup: Interval
    """cold / warm; 1 means that caching gave nothing."""
    saved_seconds: Interval
    """cold - warm, with Student's interval."""
    cached_share: float | None
    """Cached tokens of the warm requests / what they share with the first; None when the engine does not say."""
    pays: bool
    """Whether the interval of `speedup` lies above 1."""


class PrefixLengths(msgspec.Struct, frozen=True, kw_only=True):
    """Time to first token, cold against warm, over the length of the prefix."""

    rounds: int
    points: tuple[LengthPoint, ...]
    saved_seconds_per_1000_tokens: Interval | None
    """Slope of the saved seconds over the prefix tokens, a line for each round; None with one length or one round."""
    pays_from_tokens: int | None
    """The shortest length measured from which on caching pays at every longer one; None: at none, or not settled."""
    verdict: Literal["caching pays", "caching gives nothing", "inconclusive"]
    because: str


class CounterRow(msgspec.Struct, frozen=True, kw_only=True):
    """A counter of the engine against what was sent and what the answers' usage states, over one part of the run."""

    part: str
    counter: str
    """The counter in kvlab's vocabulary."""
    sent: int | None
    """Tokens of all answered requests: those of their prompts, or for hits those that usage calls cached."""
    counted: int | None
    """By how much the engine's counter grew."""
    difference: int | None
    """counted - sent."""
    requests: int
    failed: int
    verdict: Told
    because: str


class ChurnPoint(msgspec.Struct, frozen=True, kw_only=True):
    """`prefixes` prompts visited in turn, twice; the second visit is measured."""

    prefixes: int
    tokens: int
    """Prompt tokens of one visit to all of them: the working set."""
    hit_share: float | None
    """Cached tokens / shared tokens of the second visit; None when the engine does not say."""
    lru_hit_share: float | None
    """The same of a simulated cache of the stated pool that evicts what was used least recently."""
    ttft: Interval | None
    """Geometric mean of the second visit's times to first token, in seconds."""


class PrefixChurn(msgspec.Struct, frozen=True, kw_only=True):
    """How many prefixes the cache holds: their number rises until their second visit no longer hits."""

    prefix_tokens: int
    points: tuple[ChurnPoint, ...]
    """By number of prefixes, the smallest first."""
    held_tokens: int | None
    """The largest working set whose second visit hit as the smallest one's did; None: none did."""
    lost_tokens: int | None
    """The smallest that did not; None: the pool's end was not reached."""
    pool_tokens: int | None
    """Tokens that the pool holds by the plan or by the server's own word."""
    pool_from: str | None
    simulated: str | None
    """What was simulated beside it; None: nothing, because the pool or its blocks are not stated."""
    verdict: Told
    """Whether the pool's end lies where it is stated to be."""
    because: str


class BlockProbe(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that begins with exactly `shared_tokens` tokens of one that is cached, and then goes on otherwise."""

    shared_tokens: int
    cached_tokens: int | None


class PrefixBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The unit in which cached tokens are reused, found from where hits begin."""

    probes: tuple[BlockProbe, ...]
    block_size: int | None
    """Tokens; 1: token by token, without blocks. None: not seen."""
    first_hit_tokens: int | None
    """Shared tokens from which on all whole blocks of them are reused."""
    stated_block_size: int | None
    """By the plan or by the server's own word."""
    stated_by: str | None
    verdict: Told
    """Whether the size found is the one that is stated."""
    because: str


class SaltProbe(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the salt experiment, all with one prompt."""

    salt: Literal["none", "first", "second"]
    repeat: bool
    """Whether this salt was sent before."""
    cached_tokens: int | None
    error: str | None = None


class PrefixSalts(msgspec.Struct, frozen=True, kw_only=True):
    """Whether `cache_salt` in a request keeps one tenant's prefixes from another's."""

    prompt_tokens: int | None
    probes: tuple[SaltProbe, ...]
    verdict: Literal["isolated", "not isolated", "not supported", "not seen"]
    because: str
