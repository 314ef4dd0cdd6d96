"""Length percentiles, the context limit that follows, and what reserving memory by other schemes would waste."""

from __future__ import annotations

from collections.abc import Callable
from operator import mul
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from kvlab.core.errors import BadInput
from kvlab.core.traffic import ContextLimit, LengthCurve, Lengths, PagingLine
from kvlab.core.units import round_up

if TYPE_CHECKING:
    from kvlab.core.trace import Ints

_POINTS = (50.0, 90.0, 95.0, 99.0, 99.9)
STEP = 256
"""Limits are given in whole steps of so many tokens."""
_STEPS = 200
"""Of a curve of lengths: what is left out lies within one such step, half a point."""
_TABLE = 1 << 24
"""Counts below this are looked up in a table of all of them."""
PAGES = (16, 32, 64, 128, 256, 512)


class Column:
    """A column of token counts with how often each count occurs: percentiles and sums then cost next to nothing."""

    def __init__(self, tokens: Ints) -> None:
        self.tokens = tokens
        self.values, self.times = _occurring(tokens)

    def percentile(self, percent: float) -> float:
        """Interpolated linearly between ranks, as numpy does it."""
        ends = np.cumsum(self.times)
        rank = (int(ends[-1]) - 1) * percent / 100
        below = int(rank)
        low, high = (int(self.values[np.searchsorted(ends, at, side="right")]) for at in (below, np.ceil(rank)))
        return low + (high - low) * (rank - below)

    def total(self, of: Callable[[Ints], Ints]) -> int:
        """The sum over requests of a function of their tokens."""
        each = of(self.values)
        if _fits(each, self.times.sum()):
            return int((each * self.times).sum())
        return sum(map(mul, each.tolist(), self.times.tolist()))


def _occurring(tokens: Ints) -> tuple[Ints, Ints]:
    """Which counts occur, ascending, and how often."""
    if int(tokens.max()) < _TABLE:
        times = np.bincount(tokens)
        values = np.flatnonzero(times)
        return values, times[values]
    return np.unique(tokens, return_counts=True)


def lengths(column: Column) -> Lengths:
    """Mean, percentiles and maximum of a column of token counts."""
    p50, p90, p95, p99, p999 = (column.percentile(percent) for percent in _POINTS)
    mean = column.total(lambda tokens: tokens) / len(column.tokens)
    return Lengths(mean=mean, p50=p50, p90=p90, p95=p95, p99=p99, p999=p999, max=int(column.values[-1]))


def curve(column: Column) -> LengthCurve:
    """The share of the requests at each count of tokens, or at those where it has risen by half a point."""
    ends, requests = np.cumsum(column.times), len(column.tokens)
    marks = np.arange(1, _STEPS + 1) * requests / _STEPS
    kept = sorted({0, *np.searchsorted(ends, marks).tolist(), len(ends) - 1})
    return LengthCurve(
        tokens=tuple(column.values[kept].tolist()),
        shares=tuple((ends[kept] / requests).tolist()),
        distinct=len(column.values),
    )


def limit(total: Column, percentile: float) -> ContextLimit:
    """The smallest limit of whole steps that holds that percentile of the requests; BadInput outside (0, 100]."""
    if not 0 < percentile <= 100:
        raise BadInput(f"--percentile {percentile:g} must be above 0 and at most 100")
    point = total.percentile(percentile)
    recommended = round_up(max(1, int(np.ceil(point))), STEP)
    over, requests = int(total.times[total.values > recommended].sum()), len(total.tokens)
    return ContextLimit(
        recommended=recommended,
        percentile=percentile,
        truncated=over,
        truncated_share=over / requests,
        holds_all=round_up(int(total.values[-1]), STEP),
        because=(
            f"p{percentile:g} of the total length is {point:,.0f} tokens; {over:,} of {requests:,} requests are"
            f" longer than {recommended:,}, the longest has {int(total.values[-1]):,}"
        ),
    )


def freed(found: ContextLimit, context: int | None, bytes_per_token: int | None) -> ContextLimit:
    """The limit with what a request at it takes less than one of `context` tokens; none where it is not shorter."""
    if context is None:
        return found
    tokens = max(0, context - found.recommended)
    amount = None if bytes_per_token is None else tokens * bytes_per_token
    return replace(found, model_context=context, freed_share=tokens / context, freed_bytes=amount)


def paging(prompts: Column, answers: Column, ends: Column, longest: int) -> tuple[PagingLine, ...]:
    """Waste of reserving up front (the maximum, powers of two, an oracle) and of pages, averaged over decode steps.

    A request holds its place for as many steps as it has answer tokens; at step k it uses prompt + k tokens. "max"
    reserves `longest`, "pow2" the prompt and the next power of two of the answer, "oracle" what it will have used in
    the end (the three schemes of Kwon et al., SOSP 2023, section 3.1); pages reserve whole pages.
    """
    used = ends.total(_triangle) - prompts.total(_triangle)
    if not used:
        return ()
    answer_tokens = answers.total(lambda tokens: tokens)
    prompt_steps = _product(answers, prompts)
    squares = answers.total(lambda tokens: tokens * tokens)
    reserved = {
        f"max ({longest:,} tokens)": answer_tokens * longest,
        "pow2": prompt_steps + answers.total(lambda tokens: tokens * _next_power(tokens)),
        "oracle": prompt_steps + squares,
        **{f"pages of {size}": ends.total(_pages(size)) - prompts.total(_pages(size)) for size in PAGES},
    }
    return tuple(PagingLine(scheme=name, waste=1 - used / total) for name, total in reserved.items())


def _fits(each: Ints, count: int) -> bool:
    """Whether a sum of so many of these numbers is sure to stay exact in 64 bits."""
    return int(each.max()) * int(count) < 1 << 63


def _product(one: Column, two: Column) -> int:
    """The sum over requests of both counts multiplied."""
    if int(one.values[-1]) * int(two.values[-1]) * len(one.tokens) < 1 << 63:
        return int(one.tokens @ two.tokens)
    return sum(map(mul, one.tokens.tolist(), two.tokens.tolist()))


def _next_power(tokens: Ints) -> Ints:
    return np.left_shift(1, np.ceil(np.log2(np.maximum(tokens, 1))).astype(np.int64))


def _triangle(tokens: Ints) -> Ints:
    """1 + 2 + ... + n."""
    return tokens * (tokens + 1) // 2


def _pages(size: int) -> Callable[[Ints], Ints]:
    """The sum over k from 1 to n of k rounded up to whole pages."""

    def reserved(tokens: Ints) -> Ints:
        pages = tokens // size
        whole: Ints = size * size * pages * (pages + 1) // 2 + (tokens - pages * size) * (pages + 1) * size
        return whole

    return reserved
