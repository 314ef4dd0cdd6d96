"""Stack distances of a long trace, request by request, in code that numba compiles and keeps.

Positions of last use are kept as bits. A request that repeats a prefix finds its blocks at adjacent positions, one
deeper each, so only the first block of such a run is counted out and the whole run moves at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from kvlab.core.trace import Ids, Ints

_WORD = 6
_GROUP = 10
"""Bits of a position that name a bit in a word of 64, and a bit in a group of 1,024 that is counted together."""
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def walked(ids: Ids, offsets: Ints, unique: int, limits: tuple[Ints, Ints], first: int) -> tuple[Ints, Ints, Ints]:
    """Hits and tokens short by depth, and leading blocks by request; `limits`: last_short and most, as in `stack`."""
    hits = np.zeros(unique + 1, dtype=np.int64)
    short = np.zeros(unique + 1, dtype=np.int64)
    leading = np.zeros(len(offsets) - 1, dtype=np.int64)
    _walk(ids, offsets, unique, limits, first, (hits, short, leading, np.zeros(0, dtype=np.int64)))
    return hits, short, leading


def each(ids: Ids, offsets: Ints, unique: int) -> Ints:
    """The depth at which each reference is found (1 is the most recent); 0: it never hits."""
    found = np.zeros(len(ids), dtype=np.int64)
    requests = len(offsets) - 1
    hits, short, leading = np.zeros(unique + 1, np.int64), np.zeros(unique + 1, np.int64), np.zeros(requests, np.int64)
    limits = (np.zeros(requests, dtype=np.int64), np.diff(offsets))
    _walk(ids, offsets, unique, limits, 0, (hits, short, leading, found))
    return found


@njit(cache=True)
def _walk(ids, offsets, unique, limits, first, found):  # type: ignore[no-untyped-def]  # compiled by numba
    last_short, most = limits
    hits, short, leading, each = found
    words = np.zeros((ids.size >> _WORD) + 1, dtype=np.uint64)
    groups = np.zeros((ids.size >> _GROUP) + 2, dtype=np.int64)  # a Fenwick tree of the counts of groups
    last = np.full(unique, -1, dtype=np.int64)
    live = now = 0
    for r in range(offsets.size - 1):
        begin, end = offsets[r], offsets[r + 1]
        before, depth, deepest = -2, 0, 0
        for i in range(begin, min(end, begin + most[r])):
            at = last[ids[i]]
            if at < 0:
                break
            depth = depth + 1 if at == before - 1 else live - _below(words, groups, at)
            before = at
            deepest = max(deepest, depth)
            leading[r] += 1
            if each.size:
                each[i] = deepest
            if r >= first:
                hits[deepest] += 1
                if i == end - 1:
                    short[deepest] += last_short[r]
        live += _use(ids, begin, end, now, (words, groups, last))
        now += end - begin


@njit(cache=True)
def _use(ids, begin, end, now, state):  # type: ignore[no-untyped-def]  # compiled by numba
    """Moves the request's blocks to the newest positions, the first block last; how many of them are new."""
    words, groups, last = state
    low = high = -1  # a run of old positions that is still to be cleared
    new = 0
    for i in range(end - 1, begin - 1, -1):
        block = ids[i]
        at = last[block]
        last[block] = now + end - 1 - i
        if at < 0:
            new += 1
        elif high >= 0 and at == high + 1:
            high = at
        else:
            if high >= 0:
                _change(words, groups, low, high, False)
            low = high = at
    if high >= 0:
        _change(words, groups, low, high, False)
    if end > begin:
        _change(words, groups, now, now + end - begin - 1, True)
    return new


@njit(cache=True)
def _change(words, groups, low, high, on):  # type: ignore[no-untyped-def]  # compiled by numba
    """Sets or clears the bits of the positions from `low` to `high`, all of which change."""
    for word in range(low >> _WORD, (high >> _WORD) + 1):
        mask = _ALL
        if word == low >> _WORD:
            mask &= _ALL << np.uint64(low & 63)
        if word == high >> _WORD:
            mask &= _ALL >> np.uint64(63 - (high & 63))
        if on:
            words[word] |= mask
        else:
            words[word] &= ~mask
    for group in range(low >> _GROUP, (high >> _GROUP) + 1):
        changed = min(high, ((group + 1) << _GROUP) - 1) - max(low, group << _GROUP) + 1
        at = group + 1
        while at < groups.size:
            groups[at] += changed if on else -changed
            at += at & -at


@njit(cache=True)
def _below(words, groups, position):  # type: ignore[no-untyped-def]  # compiled by numba
    """Live positions below `position`."""
    count = 0
    at = position >> _GROUP
    for word in range(at << (_GROUP - _WORD), position >> _WORD):
        count += _ones(words[word])
    count += _ones(words[position >> _WORD] & ~(_ALL << np.uint64(position & 63)))
    while at > 0:
        count += groups[at]
        at -= at & -at
    return count


@njit(cache=True)
def _ones(word):  # type: ignore[no-untyped-def]  # compiled by numba
    """Bits that are set (Hacker's Delight, figure 5-2)."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
