"""Two arms that answered the same items, each right or wrong: McNemar's test, and the difference of accuracies.

Only items on which the arms part say anything of the difference; the others say how rare those are.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import comb, sqrt
from typing import Literal, NamedTuple

from kvlab.core.interval import Interval
from kvlab.core.statistics import NORMAL

_MOST_ITEMS = 10_000_000
"""Items beyond which nobody would send them."""


class Pairs(NamedTuple):
    """Items by who was right."""

    both: int
    only_a: int
    only_b: int
    neither: int

    @property
    def items(self) -> int:
        """How many there are."""
        return sum(self)


def pairs(marks: Iterable[tuple[bool, bool]]) -> Pairs:
    """Counts (A right, B right) marks."""
    counts = {(a, b): 0 for a in (True, False) for b in (True, False)}
    for a, b in marks:
        counts[a, b] += 1
    return Pairs(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


def mcnemar(found: Pairs) -> float:
    """Probability of a split at least this uneven if both arms are right equally often (exact, two-sided).

    The conditional test: of the items on which the arms part, each arm wins a half (McNemar, Psychometrika 12, 1947, in
    its exact binomial form). 1 when they never part.
    """
    part, fewer = found.only_a + found.only_b, min(found.only_a, found.only_b)
    tail: int = sum(comb(part, k) for k in range(fewer + 1))
    return min(1.0, tail / 2 ** (part - 1)) if part else 1.0


def accuracy_change(found: Pairs) -> Interval:
    """B's accuracy less A's, -1..1, with Tango's score interval (Statistics in Medicine 17, 1998, 891-908).

    It keeps its level where few items part or none, as a gate wants it: with none among n, it reaches z^2 / (n + z^2)
    to both sides. Raises ValueError without items.
    """
    return _interval(found.only_a, found.only_b, found.items)


def items_to_settle(found: Pairs, margin: float) -> int | None:
    """Items with which the interval would lie on one side of a loss of `margin`, if the arms went on parting alike.

    The counts are scaled until the interval of `accuracy_change` excludes -margin. None when the change is too near to
    it for any number of items that could be sent.
    """
    shares = found.only_a / found.items, found.only_b / found.items
    if shares[1] - shares[0] == -margin:
        return None

    def settled(items: int) -> bool:
        return side(_interval(shares[0] * items, shares[1] * items, items), margin) is not None

    low, high = 0, found.items
    while not settled(high):
        if high >= _MOST_ITEMS:
            return None
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if settled(middle) else (middle, high)
    return high


def side(change: Interval, margin: float) -> Literal["within", "beyond"] | None:
    """Whether the interval excludes a loss of more than `margin`, or excludes a smaller one; None: neither."""
    if change.low > -margin:
        return "within"
    return "beyond" if change.high < -margin else None


def _interval(only_a: float, only_b: float, items: float) -> Interval:
    if items <= 0:
        raise ValueError("no item was answered by both arms")
    value = (only_b - only_a) / items
    # At +-1 the score is not defined; an arm that is always right against one that never is has its limit there.
    low = -1.0 if only_a == items else _limit(only_a, only_b, items, (-1.0, value), NORMAL)
    high = 1.0 if only_b == items else _limit(only_a, only_b, items, (value, 1.0), -NORMAL)
    return Interval(value, low, high)


def _limit(only_a: float, only_b: float, items: float, within: tuple[float, float], target: float) -> float:
    """Where the score equals `target`: it falls from one end of `within` to the other."""
    low, high = within
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _score(only_a, only_b, items, middle) > target else (low, middle)
    return (low + high) / 2


def _score(only_a: float, only_b: float, items: float, change: float) -> float:
    """Distance of the data from a true difference of `change`, in standard errors under it.

    The variance rests on the likeliest share of only-A items given the difference: the root q of
    2 n q^2 + (change (2 n - only_b + only_a) - only_a - only_b) q - only_a change (1 - change) = 0.
    """
    slope = change * (2 * items - only_b + only_a) - only_a - only_b
    root = sqrt(max(0.0, slope * slope + 8 * items * only_a * change * (1 - change)))
    share = max(0.0, (root - slope) / (4 * items))
    variance = items * (2 * share + change * (1 - change))
    off = only_b - only_a - items * change
    if variance <= 0:
        return 0.0 if off == 0 else float("inf") if off > 0 else float("-inf")
    return off / sqrt(variance)
