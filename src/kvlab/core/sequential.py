"""Looking after every block without paying for it: e-values, and intervals that hold at every look at once.

The t-test of the difference between two arms, with the machine's level, its drift and its noise unknown: a ratio of
likelihoods that none of the three enters (right Haar priors), with a normal prior on the difference in standard
deviations of a run. It is an e-process: if the true difference is the one tested, the chance that it ever exceeds
1 / alpha, at whatever look, is at most alpha (Lai, Annals of Statistics 4, 1976; Perez-Ortiz, Lardy, de Heide and
Grunwald, "E-statistics, group invariance and anytime-valid testing", Annals of Statistics 52, 2024; with covariates:
Lindon, Ham, Tingley and Bojinov, "Anytime-valid inference in linear models", arXiv 2210.08589).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from kvlab.core.blocks import Contrast

ALPHA = 0.05
_PRIOR = 5.0
"""Variance of the difference in standard deviations of a run, under the alternative. What is worth a redeployment is
some times the noise of a run: at 5, a difference of two of them settles in four blocks, one of five in two."""


class Sequence95(NamedTuple):
    """A difference, and the bounds of its confidence sequence (infinite while nothing can be said)."""

    value: float
    low: float
    high: float


def e_value(seen: Contrast, tested: float = 0.0) -> float:
    """Evidence against `tested` being the difference: at least 20 rejects it at 5 %, however often one has looked.

    1 while no noise is known. Runs without any noise speak with the largest number there is, unless they say what is
    tested.
    """
    if seen.freedom < 1:
        return 1.0
    spread = 1 + seen.size * _PRIOR
    if seen.error == 0:
        return math.inf if seen.value != tested else spread**-0.5
    x = ((seen.value - tested) / seen.error) ** 2 / seen.freedom
    power = (seen.freedom + 1) / 2 * (math.log1p(x) - math.log1p(x / spread)) - math.log(spread) / 2
    return math.exp(min(power, 700.0))


def e_value_beyond(seen: Contrast, least: float) -> float:
    """Evidence that the difference lies outside [-least, least]: the smallest against any value within."""
    nearest = min(max(seen.value, -least), least)
    return e_value(seen, nearest)


def confidence_sequence(seen: Contrast, alpha: float = ALPHA) -> Sequence95:
    """The differences that were not rejected: they hold the true one at every look together with chance 1 - alpha."""
    spread = 1 + seen.size * _PRIOR
    limit = (spread / alpha**2) ** (1 / (seen.freedom + 1)) if seen.freedom > 0 else math.inf
    if limit >= spread:
        return Sequence95(seen.value, -math.inf, math.inf)
    half = ((limit - 1) / (1 - limit / spread) * seen.freedom) ** 0.5 * seen.error
    return Sequence95(seen.value, seen.value - half, seen.value + half)


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
