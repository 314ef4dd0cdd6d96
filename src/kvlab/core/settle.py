"""How many more requests would settle an inconclusive verdict, estimated: the noise is known from few runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kvlab.core.blocks import Contrast, Noise
from kvlab.core.comparison import ComparisonRow
from kvlab.core.performance import SMALLEST
from kvlab.core.record import More
from kvlab.core.sequential import confidence_sequence
from kvlab.core.units import counted

_MOST = 1000
"""Blocks beyond which nobody waits."""
_RUNS = 4
"""Runs of a block."""


def more(rows: Sequence[ComparisonRow], *, blocks: int, prompts: int, sequential: bool) -> More | None:
    """Requests beyond the `blocks` that ran, for the row that needs the most; `prompts` are the requests of a run.

    A row is settled when its interval, at the noise between runs seen so far, lies within the margin or beyond 1 %: the
    nearer of the two for the change seen so far. None when no row lacks an interval that can be narrowed.
    """
    needs = [
        (row.metric, need)
        for row in rows
        if row.verdict == "inconclusive" and (need := _needed(row, blocks, sequential=sequential)) is not None
    ]
    if not needs:
        return None
    metric, (low, middle, high) = max(needs, key=lambda item: item[1][1])
    each = _RUNS * prompts
    sent = (middle - blocks) * each
    least, most = (low - blocks) * each, None if high is None else (high - blocks) * each
    until = f"more than {_MOST * each:,}" if most is None else f"{most:,}"
    further = counted(middle - blocks, "block")
    text = (
        f"about {sent:,} more requests ({further}) would settle it: {least:,} to {until} at the ends of what the runs"
        " say of the noise"
    )
    return More(requests=sent, low=least, high=most, metric=metric, text=text)


def _needed(row: ComparisonRow, blocks: int, *, sequential: bool) -> tuple[int, int, int | None] | None:
    """Blocks at the lower end of the noise's 95 % interval, in its middle (the median), and at the upper end.

    The interval is that of a standard deviation by chi-squared.

    None: no noise to go by, or more blocks than anybody waits for.
    """
    if row.change is None or row.change <= -1 or not row.noise or row.margin is None:
        return None
    from scipy.stats import chi2

    change, margin, smallest = abs(math.log1p(row.change)), math.log1p(row.margin), math.log1p(SMALLEST)
    within = margin - change if change <= margin / 2 else 0.0
    # Just between the two the change itself will move: a part of the gap is what can be hoped for.
    target = max(within, change - smallest, (margin - smallest) / 4)
    freedom = _freedom(blocks)
    deviation = Noise.seen_between(row.noise, 2 * blocks, freedom).deviation
    ends = (deviation * (freedom / float(chi2.ppf(share, freedom))) ** 0.5 for share in (0.975, 0.5, 0.025))
    low, middle, high = (_blocks(end, target, least=blocks, sequential=sequential) for end in ends)
    return None if low is None or middle is None else (low, middle, high)


def _freedom(blocks: int) -> int:
    """Degrees of freedom that the noise is known from: the arms' means taken out, from two blocks on the drift too."""
    return 4 * blocks - (2 if blocks < 2 else 3)


def _blocks(deviation: float, target: float, *, least: int, sequential: bool) -> int | None:
    """The fewest blocks above `least` whose interval is at most `target` either way. None: beyond all patience."""
    low, high = least + 1, _MOST
    if _half_width(deviation, high, sequential=sequential) > target:
        return None
    while low < high:
        middle = (low + high) // 2
        if _half_width(deviation, middle, sequential=sequential) <= target:
            high = middle
        else:
            low = middle + 1
    return low


def _half_width(deviation: float, blocks: int, *, sequential: bool) -> float:
    """Half of the interval of the arms' difference, in logarithms, after that many blocks of two runs an arm."""
    if sequential:
        runs = 4 * blocks
        return confidence_sequence(Contrast(0.0, deviation / blocks**0.5, runs - 3, float(blocks))).high
    from scipy.stats import t

    return float(t.ppf(0.975, _freedom(blocks))) * deviation / math.sqrt(blocks)
