"""When each request is due."""

from __future__ import annotations

import random
from itertools import accumulate


def poisson_arrivals(count: int, rate: float, seed: int) -> tuple[float, ...]:
    """Seconds from the start at which `count` requests are due: a Poisson process of `rate` requests a second.

    The gaps are exponential; all are scaled by one factor so that the last request is due at count / rate, as
    `vllm bench serve` does. Without that the rate of a short run is off by 1 / sqrt(count), which would read as a
    difference between two seeds. The same seed gives the same times.
    """
    if not count:
        return ()
    source = random.Random(seed)
    due = list(accumulate(source.expovariate(rate) for _ in range(count)))
    scale = count / rate / due[-1]
    return tuple(moment * scale for moment in due)
