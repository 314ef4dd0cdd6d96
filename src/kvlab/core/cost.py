"""What tokens cost on a server of a given price an hour."""

from __future__ import annotations

from collections.abc import Sequence

from kvlab.core.steady import throughput
from kvlab.core.sweep import CostWay, Estimate, Slice

SECONDS = 3600
MILLION = 1_000_000


def per_million(price_per_hour: float, tokens_per_second: Estimate | None) -> Estimate | None:
    """Dollars per million tokens; the ends of the interval change places. None when no token was made."""
    if tokens_per_second is None or tokens_per_second.value <= 0:
        return None
    low, high = tokens_per_second.low, tokens_per_second.high
    return Estimate(
        _dollars(price_per_hour, tokens_per_second.value),
        None if high is None else _dollars(price_per_hour, high),
        _dollars(price_per_hour, low) if low else None,
    )


def _dollars(price_per_hour: float, tokens_per_second: float) -> float:
    return price_per_hour / SECONDS / tokens_per_second * MILLION


def ways(price_per_hour: float, parts: Sequence[Slice], output_weight: float) -> tuple[CostWay, ...]:
    """The two ways of laying the hour's price on tokens.

    alone: all of it on the output tokens, as if prompts were free, or all of it on the prompt tokens, as if answers
    were; the usual "dollars per million output tokens" is this one. shared: both kinds pay, an output token
    `output_weight` times a prompt token, so that input x price + output x weight x price is the price of the server.
    """
    output = throughput(parts, lambda part: part.output_tokens)
    read = throughput(parts, lambda part: part.input_tokens)
    units = throughput(parts, lambda part: part.weighed(output_weight))
    each = per_million(price_per_hour, units) if read is not None and read.value > 0 else None
    heavier = None if each is None else _times(each, output_weight)
    return (
        CostWay(
            way="alone",
            output_weight=None,
            per_million_output=per_million(price_per_hour, output),
            per_million_input=per_million(price_per_hour, read),
            text="the whole price on one kind of token, the other free: two numbers of which one is taken",
        ),
        CostWay(
            way="shared",
            output_weight=output_weight,
            per_million_output=heavier,
            per_million_input=each,
            text="the price on both kinds"
            + (
                ", every token alike" if output_weight == 1 else f", an output token as {output_weight:g} of the prompt"
            ),
        ),
    )


def _times(estimate: Estimate, factor: float) -> Estimate:
    low, high = estimate.low, estimate.high
    return Estimate(
        estimate.value * factor, None if low is None else low * factor, None if high is None else high * factor
    )
