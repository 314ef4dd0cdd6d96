"""What chance alone does: signs of paired differences turned over, and p-values of several metrics taken together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FEWEST_PAIRS = 8
"""Pairs from which one of four metrics can reach 5 % alone, times four by `hochberg`: 2 of 2^8 = 256 ways are at the
ends, 0.8 %. With 6 all four would have to change together, and a third block would undo what two have shown."""
_ALL_WAYS = 16
"""Up to here every way of turning the signs is counted; beyond it, 20,000 drawn ones."""
_DRAWN = 20_000


def sign_flip(differences: Sequence[float], *, seed: int = 0) -> float | None:
    """Two-sided p-value of the mean of paired differences by permutation (Fisher 1935; Edgington 1995, chapter 5).

    If both arms are one configuration, which run of a pair was A's is a name: each difference is as likely as its
    opposite. A drift that is linear in time turns with the order of the pairs and only makes the test more cautious.
    None below `FEWEST_PAIRS`.
    """
    if len(differences) < FEWEST_PAIRS:
        return None
    import numpy as np

    from kvlab.core.statistics import generator

    values = np.asarray(differences, dtype=float)
    n = len(values)
    if n <= _ALL_WAYS:
        signs = 1 - 2 * ((np.arange(1 << n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = generator(seed).choice((-1, 1), size=(_DRAWN, n))
    sums = np.abs(signs @ values)
    # Sums of the same numbers in another order differ in the last digits.
    beyond = int((sums >= abs(values.sum()) * (1 - 1e-12)).sum())
    return beyond / len(signs) if n <= _ALL_WAYS else (beyond + 1) / (len(signs) + 1)


def hochberg(p_values: Mapping[str, float]) -> dict[str, float]:
    """Hochberg's adjusted p-values (Biometrika 75, 1988): all that are below 5 % err together at 5 %.

    That holds for metrics that go up and down together (Sarkar, Annals of Statistics 26, 1998), as the throughput and
    the latencies of one run do; unlike Holm's, nothing is lost when all of them say the same.
    """
    adjusted, smallest = dict[str, float](), 1.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: -item[1]), 1):
        smallest = min(smallest, rank * p)
        adjusted[name] = smallest
    return adjusted
