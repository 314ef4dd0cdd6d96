"""Stack distances of a trace that is known as a whole, by sorting: no compiled code, some 60 bytes a reference.

Give every use of a block a position, a request's first block the last of its own. A block that was last used at
position p lies, when a request begins at position T, below all blocks whose last use falls between the two: T - p,
less the uses among them that are followed by another one before T. So what is counted is uses before T whose own
predecessor lies at p or above: dominance in the plane, answered for all questions at once by a wavelet matrix
(G. Navarro and others, Information Systems 47, 2015, pp. 15-32), one bit of the rank after another.

A request that repeats a prefix uses it at adjacent positions that were adjacent before: such a run is one point with a
weight, and one question. No question's position can lie within a run that has moved, as it is still in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvlab.core.columns import offsets as starts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvlab.core.trace import Ids, Ints


_NARROW = np.int32
"""Of positions, whose number is known to be small: half the memory is half the time."""
_DIGIT = 16
"""Bits by which numpy sorts in linear time."""


class _Uses(NamedTuple):
    """Every reference: where its request begins, its position, and the position of its block's last use (-1: none)."""

    begin: Ids
    position: Ids
    before: Ids


class _Runs(NamedTuple):
    """Uses that followed another one, in the order of time and in runs: position, that of the other one, how many."""

    position: Ints
    before: Ids
    weight: Ints


def found(ids: Ids, offsets: Ints, most: Ints) -> Ints:
    """The depth at which each reference is found (1 is the most recent); 0: it never hits.

    Request r holds ids[offsets[r]:offsets[r + 1]], none of them twice; only its first most[r] may hit.
    """
    depth = np.zeros(len(ids), dtype=np.int64)
    uses = _uses(ids, offsets)
    hit = np.flatnonzero(_leading(uses, offsets, most))
    if not len(hit):
        return depth
    before, begin = uses.before[hit], uses.begin[hit]
    new = np.ones(len(hit), dtype=np.bool_)  # whether a run of adjacent positions begins here
    new[1:] = (before[1:] != before[:-1] - 1) | (begin[1:] != begin[:-1])
    asked = np.flatnonzero(new)
    first, last_use = begin[asked], before[asked]
    top = first - last_use - _dominating(_runs(uses), first, last_use)
    each = np.repeat(top - asked, np.diff(np.append(asked, len(hit)))) + np.arange(len(hit))
    depth[hit] = _deepest(each, begin)
    return depth


def _uses(ids: Ids, offsets: Ints) -> _Uses:
    counts, starts = np.diff(offsets), offsets.astype(_NARROW)
    begin = np.repeat(starts[:-1], counts)
    position = np.repeat(starts[:-1] + starts[1:] - 1, counts) - np.arange(len(ids), dtype=_NARROW)
    before = np.full(len(ids), -1, dtype=_NARROW)
    order = _by_block(ids)
    blocks = ids[order]
    again = np.flatnonzero(blocks[1:] == blocks[:-1])
    before[order[again + 1]] = position[order[again]]
    return _Uses(begin, position, before)


def _by_block(ids: Ids) -> Ints:
    """The references of each block together, in the order of time: a radix sort, 16 bits at a time."""
    order: Ints = np.argsort(ids.astype(np.uint16), kind="stable")
    top = int(ids.max()) if len(ids) else 0
    for shift in range(_DIGIT, top.bit_length(), _DIGIT):
        order = order[np.argsort((ids >> shift).astype(np.uint16)[order], kind="stable")]
    return order


def _leading(uses: _Uses, offsets: Ints, most: Ints) -> NDArray[np.bool_]:
    """References of the run of blocks, from a request's first one on, that were all used before."""
    miss = uses.before < 0
    miss |= np.arange(len(miss)) - uses.begin >= np.repeat(most, np.diff(offsets))
    missed = starts_of(miss)
    leading: NDArray[np.bool_] = missed[1:] == missed[uses.begin]
    return leading


def _runs(uses: _Uses) -> _Runs:
    """The points of the plane."""
    before = uses.before[uses.position]  # the use at a position, and the position of a use: one turns into the other
    position = np.flatnonzero(before >= 0)
    before, begin = before[position], uses.begin[position]
    new = np.ones(len(position), dtype=np.bool_)
    new[1:] = (np.diff(position) != 1) | (np.diff(before) != 1) | (begin[1:] != begin[:-1])
    first = np.flatnonzero(new)
    return _Runs(position[first], before[first], np.diff(np.append(first, len(position))))


def _dominating(runs: _Runs, times: Ids, least: Ids) -> Ints:
    """For each question, the weight of runs at positions below its time whose `before` is at least `least`."""
    by_before = np.argsort(runs.before)
    rank = np.empty(len(by_before), dtype=np.int64)
    rank[by_before] = np.arange(len(by_before))
    weight = runs.weight
    asked = np.searchsorted(runs.before[by_before], least)
    low, high = np.zeros(len(times), dtype=np.int64), np.searchsorted(runs.position, times)
    total = np.zeros(len(times), dtype=np.int64)
    for bit in reversed(range(len(rank).bit_length())):
        one = ((rank >> bit) & 1).astype(np.bool_)
        zeros, ones = starts_of(~one), starts_of(np.where(one, weight, 0))
        up = ((asked >> bit) & 1).astype(np.bool_)
        total += np.where(up, 0, ones[high] - ones[low])
        low, high = (np.where(up, zeros[-1] + edge - zeros[edge], zeros[edge]) for edge in (low, high))
        order = np.concatenate([np.flatnonzero(~one), np.flatnonzero(one)])
        rank, weight = rank[order], weight[order]
    equal = starts_of(weight)
    return total + equal[high] - equal[low]


def _deepest(depth: Ints, begin: Ids) -> Ints:
    """The largest depth so far within each request: a run hits only where none of it lies deeper."""
    step = int(depth.max()) + 1
    request = np.cumsum(np.append(0, begin[1:] != begin[:-1])) * step
    deepest: Ints = np.maximum.accumulate(depth + request) - request
    return deepest
