"""What a block of a sample stands for.

A block that is referred to once misses once, at every capacity; one of a thousand references misses once to a thousand
times. So the blocks of a sample are divided by how often the trace refers to them, and where it is known how many such
blocks the whole trace has, each stands for its part of those (post-stratification: Cochran, Sampling Techniques, 3rd
ed., 1977, section 5A.9), tilted so that their references are as many as in the trace too (the regression estimator,
section 7.1). Blocks that a sample holds too many or too few of then make little error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvlab.core.hashing import mixed

if TYPE_CHECKING:
    from kvlab.core.trace import Blocks, Floats, Ints

GROUPS = 32
"""Parts of a sample, chosen by hash, whose spread tells its error."""
_FEWEST = 20
"""Blocks of the sample that a stratum holds."""


class Strata(NamedTuple):
    """The blocks of a sample. `stratum`, `group` and `weight` are of each reference."""

    stratum: Ints
    group: Ints
    weight: Floats
    """References of the trace that it stands for."""
    blocks: Ints
    """blocks[g, s]: of the sample, in group g and stratum s."""
    each: Floats
    """Blocks of the trace for each of the sample, by stratum."""
    known: int | None
    """Blocks of the trace, where they were counted."""

    @property
    def unique(self) -> int:
        """Blocks of the sample."""
        return int(self.blocks.sum())


def strata(numbered: Blocks, names: Ints) -> Strata:
    """The blocks of a sample that holds at least one, numbered through, and what they were called before."""
    sample = numbered.sample
    assert sample is not None
    times = np.bincount(numbered.ids)
    group = (mixed(mixed(names.astype(np.uint64))) % np.uint64(GROUPS)).astype(np.int64)
    occurring = sample.occurring
    edges = np.zeros(0, dtype=np.int64) if occurring is None else _edges(np.bincount(times))
    stratum = np.searchsorted(edges, times)
    kinds = len(edges) + 1
    cells = np.bincount(group * kinds + stratum, minlength=GROUPS * kinds).reshape(GROUPS, kinds)
    if occurring is None:
        each, weight = np.array([1 / sample.rate]), np.full(len(times), 1 / sample.rate)
    else:
        values = np.flatnonzero(occurring)
        of_trace = np.searchsorted(edges, values)
        each = np.bincount(of_trace, weights=occurring[values]) / cells.sum(axis=0)
        weight = np.zeros(len(times))
        for kind in range(kinds):
            held, alike = stratum == kind, values[of_trace == kind]
            weight[held] = each[kind] * _tilt(times[held], alike, occurring[alike])
    of = numbered.ids
    known = None if occurring is None else int(occurring.sum())
    return Strata(stratum[of], group[of], weight[of], cells, each, known)


def _edges(blocks: Ints) -> Ints:
    """The largest number of references of each stratum but the last one; blocks[n] of the sample have n."""
    edges: list[int] = []
    held = 0
    left = int(blocks.sum())
    for times in np.flatnonzero(blocks).tolist():
        held += int(blocks[times])
        if held >= _FEWEST and left - held >= _FEWEST:
            edges.append(times)
            left -= held
            held = 0
    return np.array(edges, dtype=np.int64)


def _tilt(times: Ints, values: Ints, blocks: Ints) -> Floats:
    """What to weigh blocks of a stratum with, 1 on average, so that they are referred to as often as those of all.

    times[i]: references to a block of the sample; of all, blocks[j] are referred to values[j] times.
    References above the most of any block in the sample do not count: one block of very many would tilt all others.
    """
    most = int(times.max())
    seen = times - times.mean()
    spread = float((seen * seen).mean())
    if not spread:
        return np.ones(len(times))
    of_all = float(blocks @ np.minimum(values, most) / blocks.sum())
    tilt = np.maximum(0.0, 1 + (of_all - times.mean()) * seen / spread)
    found: Floats = tilt / tilt.mean()
    return found
