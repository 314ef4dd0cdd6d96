"""Length percentiles, the context limit that follows, and what reserving memory by other schemes would waste."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvlab.core.errors import BadInput
from kvlab.core.traffic import ContextLimit, Lengths, PagingLine
from kvlab.core.units import round_up

if TYPE_CHECKING:
    from kvlab.core.trace import Ints

_POINTS = (50.0, 90.0, 95.0, 99.0, 99.9)
STEP = 256
"""Limits are given in whole steps of so many tokens."""
PAGES = (16, 32, 64, 128, 256, 512)


def lengths(tokens: Ints) -> Lengths:
    """Mean, percentiles and maximum of a column of token counts."""
    p50, p90, p95, p99, p999 = (float(value) for value in np.percentile(tokens, _POINTS))
    return Lengths(mean=float(tokens.mean()), p50=p50, p90=p90, p95=p95, p99=p99, p999=p999, max=int(tokens.max()))


def limit(total: Ints, percentile: float) -> ContextLimit:
    """The smallest limit of whole steps that holds that percentile of the requests; BadInput outside (0, 100]."""
    if not 0 < percentile <= 100:
        raise BadInput(f"--percentile {percentile:g} must be above 0 and at most 100")
    point = float(np.percentile(total, percentile))
    recommended = round_up(max(1, int(np.ceil(point))), STEP)
    over = int((total > recommended).sum())
    return ContextLimit(
        recommended=recommended,
        percentile=percentile,
        truncated=over,
        truncated_share=over / len(total),
        because=(
            f"p{percentile:g} of the total length is {point:,.0f} tokens; {over:,} of {len(total):,} requests are"
            f" longer than {recommended:,}, the longest has {int(total.max()):,}"
        ),
    )


def paging(inputs: Ints, outputs: Ints, longest: int) -> tuple[PagingLine, ...]:
    """Waste of reserving up front (the maximum, powers of two, an oracle) and of pages, averaged over decode steps.

    A request holds its place for `outputs` steps; at step k it uses input + k tokens. "max" reserves `longest`, "pow2"
    the input and the next power of two of the output, "oracle" what it will have used in the end (the three schemes of
    Kwon et al., SOSP 2023, section 3.1); pages reserve whole pages.
    """
    ends = inputs + outputs
    used = int((_triangle(ends) - _triangle(inputs)).sum())
    if not used:
        return ()
    powers = 1 << np.ceil(np.log2(np.maximum(outputs, 1))).astype(np.int64)
    reserved = {
        f"max ({longest:,} tokens)": outputs * longest,
        "pow2": outputs * (inputs + powers),
        "oracle": outputs * ends,
        **{f"pages of {size}": _paged(ends, size) - _paged(inputs, size) for size in PAGES},
    }
    return tuple(PagingLine(scheme=name, waste=1 - used / int(total.sum())) for name, total in reserved.items())


def _triangle(tokens: Ints) -> Ints:
    """1 + 2 + ... + n."""
    return tokens * (tokens + 1) // 2


def _paged(tokens: Ints, size: int) -> Ints:
    """The sum over k from 1 to n of k rounded up to whole pages."""
    pages = tokens // size
    whole: Ints = size * size * pages * (pages + 1) // 2 + (tokens - pages * size) * (pages + 1) * size
    return whole
