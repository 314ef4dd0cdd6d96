"""What this traffic says should be changed, with what it gives."""

from __future__ import annotations

from kvlab.core.performance import share
from kvlab.core.traffic import ContextLimit, CurvePoint, Lengths, Reuse, TrafficMove
from kvlab.core.units import size

WORTH = 0.05
"""Share of prompt tokens from which prefix caching is worth naming."""
OFFLOAD = 0.3
"""Share from which caching and offload come first among the moves of algorithms."""
NEARLY_ALL = 0.9
"""Share of the hits of an endless cache from which a smaller one is enough."""
FLAT = 0.1
"""Share of prompt tokens below which there is nothing to share."""
LONG = 32 * 1024
"""Tokens of the median prompt from which the cache of one request is what costs."""


def moves(prompts: Lengths, limit: ContextLimit, reuse: Reuse | None) -> tuple[TrafficMove, ...]:
    """The moves that apply, the cheapest first."""
    found = [_limit(limit)]
    if reuse is not None:
        found += _caching(reuse)
        if reuse.ideal.token_weighted < FLAT and prompts.p50 >= LONG:
            found.append(
                TrafficMove(
                    do="look at eviction, a bounded window or a model with a smaller cache (MLA, fewer KV heads)",
                    gain="less cache a request; nothing from sharing",
                    because=(
                        f"half of the prompts are longer than {prompts.p50:,.0f} tokens and only"
                        f" {share(reuse.ideal.token_weighted)} of their tokens were seen before"
                    ),
                )
            )
    return tuple(found)


def _limit(limit: ContextLimit) -> TrafficMove:
    whole = limit.holds_all or limit.recommended
    if not limit.truncated:
        return TrafficMove(
            do=f"limit the context to {limit.recommended:,} tokens",
            gain="the engine reserves and checks for no longer request",
            because="no request of this trace is longer",
        )
    return TrafficMove(
        do=f"choose the limit: {limit.recommended:,} tokens where long requests may be refused, else {whole:,}",
        gain=f"the shorter one lowers what a single request can take of the cache by"
        f" {share(1 - limit.recommended / whole)}",
        because="1 request lies between the two"
        if limit.truncated == 1
        else f"{limit.truncated:,} requests lie between the two",
    )


def _caching(reuse: Reuse) -> list[TrafficMove]:
    ideal = reuse.ideal
    if ideal.token_weighted < WORTH:
        return [
            TrafficMove(
                do="expect nothing from prefix caching or offload",
                gain=f"at most {share(ideal.token_weighted)} of the prompt tokens",
                because="hardly a prompt begins as an earlier one did",
            )
        ]
    knee = next((at for at in reuse.curve if at.hit_tokens >= NEARLY_ALL * ideal.hit_tokens), reuse.curve[-1])
    found = [
        TrafficMove(
            do="keep prefix caching on",
            gain=f"up to {share(ideal.token_weighted)} of the prompt tokens need not be computed again",
            because=(
                f"{ideal.hit_tokens:,} of {reuse.tokens:,} prompt tokens were seen before;"
                f" {share(knee.token_hit_rate)} with a cache of {_capacity(knee)}"
            ),
        )
    ]
    if ideal.token_weighted >= OFFLOAD:
        found.append(
            TrafficMove(
                do=f"where the GPU's pool is smaller than {_capacity(knee)}, add an offload tier of that size",
                gain=(
                    f"{share(knee.token_hit_rate)} of the prompt tokens come from a cache, of"
                    f" {share(ideal.token_weighted)} that could"
                ),
                because=f"reuse above {share(OFFLOAD)}: caching and offload come before changes of the model",
            )
        )
    return found


def _capacity(point: CurvePoint) -> str:
    amount = "" if point.capacity_bytes is None else f" ({size(point.capacity_bytes)})"
    return f"{point.capacity_tokens:,} tokens{amount}"
