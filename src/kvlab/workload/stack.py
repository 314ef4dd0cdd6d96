"""Exact LRU hits for every capacity in one pass: Mattson's stack distances (IBM Systems Journal 9(2), 1970).

A request looks its blocks up in the cache as it was before the request; what it finds is the longest leading run of
blocks that are there. Then all its blocks count as used, the first one last, so that the tail is evicted first: this is
how vLLM frees blocks and what a radix tree that evicts leaves does (SGLang). A block's distance is its depth in the
stack of recently used blocks; a run hits at a capacity if no block of it is deeper.

A short trace is sorted as a whole (`offline`), a long one is walked request by request by compiled code (`walk`). Both
are exact; the first needs more memory a reference, the second half a second to load the compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvlab.core.columns import offsets as places_of

if TYPE_CHECKING:
    from kvlab.core.trace import Ids, Ints

SHORT = 1 << 22
"""References up to which sorting costs less than loading the compiler."""


class Distances(NamedTuple):
    """`hits[d]`: references found at depth d (1 is the most recent); `short[d]`: tokens that they lack of full blocks.

    `leading[r]`: blocks of request r that an endless cache would hold. References that never hit are in no depth.
    """

    hits: Ints
    short: Ints
    leading: Ints


def distances(ids: Ids, offsets: Ints, unique: int, *, last_short: Ints, most: Ints, first: int = 0) -> Distances:
    """Depths of the references of requests `first` and later; the earlier ones only warm the cache.

    `ids`: block ids below `unique`, request r's from offsets[r] to offsets[r + 1], none twice in a request;
    `last_short[r]`: tokens that the request's last block lacks of a full one; `most[r]`: blocks of it that may hit (an
    engine that must compute the last token recomputes its block).
    """
    if len(ids) <= SHORT:
        from kvlab.workload.offline import found

        return _summed(found(ids, offsets, most), offsets, unique, last_short, first)
    from kvlab.workload.walk import walked

    return Distances(*walked(ids, offsets, unique, (last_short, most), first))


def depths(ids: Ids, offsets: Ints, unique: int) -> Ints:
    """The depth at which each reference is found (1 is the most recent); 0: it never hits."""
    if len(ids) <= SHORT:
        from kvlab.workload.offline import found

        return found(ids, offsets, np.diff(offsets))
    from kvlab.workload.walk import each

    return each(ids, offsets, unique)


def _summed(depth: Ints, offsets: Ints, unique: int, last_short: Ints, first: int) -> Distances:
    hit = depth > 0
    begin = int(offsets[first])
    counted = depth[begin:][hit[begin:]]
    short = np.zeros(unique + 1, dtype=np.int64)
    ends = offsets[first + 1 :]
    partial = np.flatnonzero(ends > offsets[first:-1])
    partial = partial[hit[ends[partial] - 1]]
    np.add.at(short, depth[ends[partial] - 1], last_short[first:][partial])
    before = places_of(hit)
    return Distances(
        hits=np.bincount(counted, minlength=unique + 1),
        short=short,
        leading=before[offsets[1:]] - before[offsets[:-1]],
    )
