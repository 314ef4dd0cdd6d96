"""Runs of unequal length that lie one after another in one column, as the blocks of requests do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvlab.core.trace import Ints


def offsets(counts: Ints | NDArray[np.bool_]) -> Ints:
    """Where each run of so many items begins, and at the end where the last one ends."""
    import numpy as np

    found: Ints = np.concatenate([[0], np.cumsum(counts)])
    return found


def places(starts: Ints, counts: Ints) -> Ints:
    """The places of all items of runs: of the first run starts[0], starts[0] + 1 ..., then those of the next one."""
    import numpy as np

    ends = offsets(counts)
    found: Ints = np.repeat(starts - ends[:-1], counts) + np.arange(ends[-1])
    return found


def backwards(times: NDArray[np.float64]) -> tuple[int, int]:
    """How many times lie before the one above them, and which is the first of them, from 1 (0: none is)."""
    import numpy as np

    found = np.flatnonzero(times[1:] < times[:-1])
    return len(found), int(found[0]) + 2 if len(found) else 0
