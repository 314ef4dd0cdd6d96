"""When each request is due."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import accumulate

from kvlab.load.spec import LoadSpec, Ramp


def due_times(count: int, load: LoadSpec) -> tuple[float, ...] | None:
    """Seconds from the start at which `count` requests are due; None in a closed loop. Raises BadInput.

    The same seed gives the same times.
    """
    if load.arrivals is not None:
        return load.given_arrivals(count)
    if load.ramp is not None:
        return gamma_arrivals(ramp_rates(count, load.ramp), load.burstiness, load.seed)
    return None if load.rate is None else gamma_arrivals((load.rate,) * count, load.burstiness, load.seed)


def gamma_arrivals(rates: Sequence[float], burstiness: float, seed: int) -> tuple[float, ...]:
    """Seconds from the start at which requests are due, of which each has its own rate, in requests a second.

    The gap before request i follows a gamma distribution of shape `burstiness` and mean 1 / rates[i], as in
    `vllm bench serve`: 1 makes it exponential (a Poisson process), less makes bursts, infinity makes all gaps equal.
    All are scaled by one factor so that the last request is due at the sum of the means, as vLLM does where the rate
    is constant. Without that the rate of a short run is off by 1 / sqrt(count), which would read as a difference
    between two seeds.
    """
    if not rates:
        return ()
    source = random.Random(seed)
    due = list(accumulate(_gap(source, rate, burstiness) for rate in rates))
    last = math.fsum(1 / rate for rate in rates)
    if not due[-1]:  # a shape so small that every gap is 0 to a float: one burst at the end
        return (last,) * len(due)
    return tuple(moment * (last / due[-1]) for moment in due)


def ramp_rates(count: int, ramp: Ramp) -> tuple[float, ...]:
    """The rate at which each of `count` requests is sent: from the first request's to the last one's.

    As in `vllm bench serve --ramp-up-strategy`, it changes with the number of the request, not with the time.
    """
    steps = [index / max(count - 1, 1) for index in range(count)]
    if ramp.shape == "exponential":
        return tuple(ramp.start * (ramp.end / ramp.start) ** step for step in steps)
    return tuple(ramp.start + (ramp.end - ramp.start) * step for step in steps)


def _gap(source: random.Random, rate: float, burstiness: float) -> float:
    if burstiness == 1:
        return source.expovariate(rate)
    return 1 / rate if math.isinf(burstiness) else source.gammavariate(burstiness, 1 / (rate * burstiness))
