"""What closes the gap between what a pool holds and what the traffic needs, the cheapest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kvlab.core.concurrency import GapCode, GapMove
from kvlab.core.performance import share
from kvlab.core.units import counted, size

if TYPE_CHECKING:
    from kvlab.core.traffic import ContextLimit

WANTED = 0.2
"""Share of the pool that is to be spared at the peak."""


_MOST_CUT = 0.5
"""Share of the prompts that may be cut away for the move to count as one that closes the gap."""


class Pool(NamedTuple):
    """What serves the traffic: tokens of all replicas, and what they would be in other cache dtypes."""

    tokens: int
    bytes_per_token: int | None
    others: Mapping[str, int] = {}


class Demand(NamedTuple):
    """Requests at once at the peak, and the means of their tokens and of their prompts' tokens."""

    peak: float
    tokens: float
    prompt: float

    @property
    def requests(self) -> float:
        """Requests that a pool must hold for the peak to leave what is to be spared."""
        return self.peak / (1 - WANTED)

    @property
    def needed(self) -> float:
        """Tokens of these."""
        return self.requests * self.tokens


def moves(pool: Pool, demand: Demand, cut: Demand, limit: ContextLimit) -> tuple[GapMove, ...]:
    """A smaller cache dtype, a context limit, shorter prompts, more memory; `cut`: without what the limit refuses."""
    found = (_dtype(pool, demand), _limit(pool, cut, limit), _prompts(pool, demand), _memory(pool, demand))
    return tuple(move for move in found if move is not None)


def _dtype(pool: Pool, demand: Demand) -> GapMove | None:
    """The smallest change of dtype that is enough, else the largest there is; without a plan, half the bytes."""
    larger = sorted((tokens, name) for name, tokens in pool.others.items() if tokens > pool.tokens)
    if pool.others and not larger:
        return None
    if larger:
        tokens, name = next((one for one in larger if one[0] >= demand.needed), larger[-1])
        do = f"store the cache in {name}: {tokens:,} tokens, not {pool.tokens:,}"
    else:
        tokens = 2 * pool.tokens
        do = f"store the cache in a dtype of half the bytes, where the model and the engine have one: {tokens:,} tokens"
    return _move("smaller_dtype", do, tokens / demand.tokens, demand.requests)


def _limit(pool: Pool, cut: Demand, limit: ContextLimit) -> GapMove | None:
    if not limit.truncated or not cut.tokens:
        return None
    do = (
        f"limit the context to {limit.recommended:,} tokens, which refuses {counted(limit.truncated, 'request')}: the"
        f" mean is then {cut.tokens:,.0f} tokens and the peak {cut.peak:,.0f}"
    )
    return _move("context_limit", do, pool.tokens / cut.tokens, cut.requests)


def _prompts(pool: Pool, demand: Demand) -> GapMove:
    """How much shorter prompts must be; that they are then served faster is left out."""
    allowed = pool.tokens / demand.requests
    mean = demand.prompt - (demand.tokens - allowed)
    if mean <= 0:
        do = f"shorten prompts: without any, the answers' {demand.tokens - demand.prompt:,.0f} tokens are too many"
        return _move("shorter_prompts", do, pool.tokens / (demand.tokens - demand.prompt), demand.requests)
    cut = 1 - mean / demand.prompt
    do = f"shorten prompts by {share(cut)}: {mean:,.0f} tokens in the mean, not {demand.prompt:,.0f}"
    if cut <= _MOST_CUT:
        return GapMove(code="shorter_prompts", do=do, holds=demand.requests, needs=demand.requests, closes=True)
    half = demand.tokens - _MOST_CUT * demand.prompt
    do = f"shorten prompts: by half they are not short enough; it would take {share(cut)}"
    return _move("shorter_prompts", do, pool.tokens / half, demand.requests)


def _memory(pool: Pool, demand: Demand) -> GapMove:
    missing = int(-(-demand.needed // 1)) - pool.tokens
    memory = "" if pool.bytes_per_token is None else f" ({size(missing * pool.bytes_per_token)} over all GPUs)"
    do = f"give the cache room for {missing:,} tokens more{memory}"
    return GapMove(code="more_memory", do=do, holds=demand.requests, needs=demand.requests, closes=True)


def _move(code: GapCode, do: str, holds: float, needs: float) -> GapMove:
    return GapMove(code=code, do=do, holds=holds, needs=needs, closes=holds >= needs)
