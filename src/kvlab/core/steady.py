"""The part of a run in which the load was steady, cut into slices whose scatter gives the interval of a throughput.

A run begins with an empty server and ends with one that runs dry, and neither is the load that was asked for. The
window is

* open loop: from the first completed request to the last scheduled one;
* closed loop of c: from the c-th completed request (each place has been used once) to the last one sent, the time in
  which c requests are in flight.

Its slices are the batches of the method of batch means: a throughput is their mean, with Student's interval
(Law, Simulation Modeling and Analysis, chapter 9; Conway, Management Science 10(1), 1963).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvlab.core.measure import RequestRow
from kvlab.core.statistics import LEVEL
from kvlab.core.sweep import Estimate, Slice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SLICES = 10
"""Slices of a run: with 9 degrees of freedom Student's t is 2.26, near the 1.96 of many."""
FEWEST = 5
"""Slices below which their scatter says nothing."""


def window(rows: Sequence[RequestRow], concurrency: int | None) -> tuple[float, float] | None:
    """Begin and end of the steady time, in seconds from the start; None when the run has none.

    `concurrency` None: an open loop.
    """
    done = sorted(row.done for row in rows if row.error is None and row.done is not None)
    first = 0 if concurrency is None else concurrency - 1
    if len(done) <= first:
        return None
    begin = done[first]
    end = max(row.scheduled for row in rows) if concurrency is None else max(row.sent for row in rows)
    return (begin, end) if end > begin else None


def slices(rows: Sequence[RequestRow], concurrency: int | None, count: int = SLICES) -> tuple[Slice, ...]:
    """The steady time in `count` equal parts; empty when the run has none.

    A request's output tokens are spread evenly over the chunks in which they came.
    """
    found = window(rows, concurrency)
    good = [row for row in rows if row.error is None and row.first is not None and row.done is not None]
    if found is None or not good:
        return ()
    import numpy as np

    edges = np.linspace(*found, count + 1)
    first = np.array([row.first for row in good], dtype=float)
    moments, weights = [], []
    for row in good:
        arrived = (row.first or 0.0) + np.concatenate([[0.0], np.cumsum(row.itls)])
        tokens = len(arrived) if row.output_tokens is None else row.output_tokens
        moments.append(arrived)
        weights.append(np.full(len(arrived), tokens / len(arrived)))
    output = _sums(np.concatenate(moments), edges, np.concatenate(weights))
    prompts = [row.prompt_tokens for row in good if row.prompt_tokens is not None]
    whole = len(prompts) == len(good)
    read = _sums(first, edges, np.array(prompts, dtype=float)).tolist() if whole else [None] * count
    completed = _sums(np.array([row.done for row in good], dtype=float), edges, np.ones(len(good)))
    long = float(edges[1] - edges[0])
    return tuple(
        Slice(seconds=long, output_tokens=float(o), input_tokens=r, completed=float(c))
        for o, r, c in zip(output, read, completed, strict=True)
    )


def _sums(moments: Array, edges: Array, weights: Array) -> Array:
    """Weights of the moments in each part; a moment on an edge belongs to the part that it ends."""
    import numpy as np

    part = np.searchsorted(edges, moments, side="left") - 1
    inside = (part >= 0) & (part < len(edges) - 1)
    return np.asarray(np.bincount(part[inside], weights[inside], len(edges) - 1), dtype=float)


def throughput(parts: Sequence[Slice], amount: Callable[[Slice], float | None]) -> Estimate | None:
    """Amount a second over the slices, with Student's interval; None without slices, or when one's is not known."""
    amounts = [found for part in parts if (found := amount(part)) is not None]
    if not parts or len(amounts) < len(parts):
        return None
    value = sum(amounts) / sum(part.seconds for part in parts)
    if len(parts) < FEWEST:
        return Estimate(value)
    import numpy as np
    from scipy.stats import t

    rates = np.array([found / part.seconds for found, part in zip(amounts, parts, strict=True)])
    half = float(t.ppf((1 + LEVEL) / 2, len(rates) - 1) * rates.std(ddof=1) / len(rates) ** 0.5)
    return Estimate(value, max(0.0, value - half), value + half)
