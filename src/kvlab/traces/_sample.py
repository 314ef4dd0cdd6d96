"""Some of the blocks of a file, chosen by their hashes: SHARDS (Waldspurger et al., FAST 2015, section 3).

A block is in the sample with all its references or not at all, in whichever file or process they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvlab.core.hashing import mixed
from kvlab.core.trace import Blocks, Sample, Sampling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvlab.core.trace import Ids, Ints

_AT_ONCE = 1 << 16
"""Ids whose hashes fit into a core's cache."""
_DENSE = 4
"""Ids a reference up to which a table of all ids costs less than a hash of every reference."""


def kept(ids: Ids, own: bool, sampling: Sampling) -> NDArray[np.bool_]:
    """Which of these ids are in the sample."""
    seed = mixed(np.array([sampling.part + 1], dtype=np.uint64))[0] if own else np.uint64(0)
    found = np.zeros(len(ids), dtype=np.bool_)
    for at in range(0, len(ids), _AT_ONCE):
        part = ids[at : at + _AT_ONCE].astype(np.uint64)
        found[at : at + _AT_ONCE] = mixed(part ^ seed) < np.uint64(sampling.rate * 2.0**64)
    return found


def chosen(bound: int, sampling: Sampling) -> Ints:
    """The ids below `bound` that are in the sample, of a file whose ids are its own; sorted."""
    parts = (np.arange(at, min(at + _AT_ONCE, bound), dtype=np.int64) for at in range(0, bound, _AT_ONCE))
    return np.concatenate([np.zeros(0, dtype=np.int64), *(ids[kept(ids, True, sampling)] for ids in parts)])


def occurring(times: Ints) -> Ints:
    """How many different blocks are referred to once, twice ..., of how often each is; never does not count."""
    found = np.bincount(times, minlength=1)
    found[0] = 0
    return found


def sampled(blocks: Blocks, sampling: Sampling) -> Blocks:
    """The blocks of the sample; the same if they are one already."""
    if blocks.sample is not None:
        return blocks
    if blocks.bound <= _DENSE * len(blocks.ids):
        here = kept(np.arange(blocks.bound), blocks.own, sampling)[blocks.ids]
        times = np.bincount(blocks.ids)
    else:
        here = kept(blocks.ids, blocks.own, sampling)
        _, times = np.unique(blocks.ids, return_counts=True)
    where = np.flatnonzero(here)
    counts = np.diff(blocks.offsets)
    last = np.zeros(len(counts), dtype=np.bool_)
    last[counts > 0] = here[blocks.offsets[1:][counts > 0] - 1]
    return blocks._replace(
        ids=blocks.ids[where],
        offsets=np.searchsorted(where, blocks.offsets),
        last_short=np.where(last, blocks.last_short, 0),
        sample=Sample(sampling.rate, counts, blocks.last_short, occurring(times)),
    )
