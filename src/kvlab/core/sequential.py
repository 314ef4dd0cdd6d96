"""Looking after every block without paying for it: e-values, and intervals that hold at every look at once.

The t-test of paired differences whose standard deviation is unknown, as a likelihood ratio of scale-invariant data with
a normal prior on the standardised effect. It is an e-process: if the true mean is the one tested, the chance that it
ever exceeds 1 / alpha, at whatever look, is at most alpha (Lai, Annals of Statistics 4, 1976; Wang and Ramdas,
"Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance", Sequential Analysis 44, 2025;
Perez-Ortiz, Lardy, de Heide and Grunwald, Annals of Statistics 52, 2024).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

ALPHA = 0.05
_PRIOR = 10.0
"""Variance of the standardised effect under the alternative. Effects worth a redeployment are several times the noise
of a pair of runs: at 10, four pairs settle an effect of 3.3 standard deviations, six one of 2, twelve one of 1.1."""


class Sequence95(NamedTuple):
    """The mean of the differences, and the bounds of its confidence sequence (infinite while nothing can be said)."""

    mean: float
    low: float
    high: float


def e_value(differences: Sequence[float], tested: float = 0.0) -> float:
    """Evidence against `tested` being the mean: at least 20 rejects it at 5 %, however often one has looked.

    1 for fewer than two differences. Differences that are all the same speak with the largest number there is, unless
    they are what is tested.
    """
    n = len(differences)
    if n < 2:
        return 1.0
    mean, variance = _moments(differences)
    spread = 1 + n * _PRIOR
    if variance == 0:
        return math.inf if mean != tested else 1 / spread**0.5
    x = n * (mean - tested) ** 2 / variance / (n - 1)
    return math.exp(n / 2 * (math.log1p(x) - math.log1p(x / spread)) - math.log(spread) / 2)


def e_value_beyond(differences: Sequence[float], least: float) -> float:
    """Evidence that the mean lies outside [-least, least]: the smallest against any value within."""
    if not differences:
        return 1.0
    mean = sum(differences) / len(differences)
    if abs(mean) <= least:
        return min(1.0, e_value(differences, mean))
    return e_value(differences, math.copysign(least, mean))


def confidence_sequence(differences: Sequence[float], alpha: float = ALPHA) -> Sequence95:
    """The means that were not rejected: they hold the true one at every look together with chance 1 - alpha."""
    n = len(differences)
    if not n:
        return Sequence95(0.0, -math.inf, math.inf)
    mean, variance = _moments(differences)
    spread = 1 + n * _PRIOR
    limit = (spread / alpha**2) ** (1 / n)
    if n < 2 or limit >= spread:
        return Sequence95(mean, -math.inf, math.inf)
    x = (limit - 1) / (1 - limit / spread)
    half = (x * (n - 1) * variance / n) ** 0.5
    return Sequence95(mean, mean - half, mean + half)


def closed(e_values: Mapping[str, float]) -> dict[str, float]:
    """For each metric the evidence that stands when several are looked at: at least 20 errs for any at 5 % together.

    Closed testing with arithmetic means (Vovk and Wang, Annals of Statistics 49, 2021, section 4): a metric's evidence
    is the smallest mean over all sets of metrics that hold it, which are those with the weakest others.
    """
    found = {}
    for name, own in e_values.items():
        total, smallest = own, own
        others = sorted(value for other, value in e_values.items() if other != name)
        for count, value in enumerate(others, 2):
            total += value
            smallest = min(smallest, total / count)
        found[name] = smallest
    return found


def _moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and unbiased variance (0 for one value)."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    return mean, math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
