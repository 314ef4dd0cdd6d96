"""Other policies at one capacity, as references for the LRU curve: FIFO, LFU, Belady's optimum.

Each lets a block in and evicts another one at once, block by block; a request is looked up before its blocks are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise

from kvlab.core.trace import Blocks


def fifo_hits(blocks: Blocks, capacity: int) -> int:
    """Leading runs that hit when the block that came first is evicted first."""
    held: set[int] = set()
    queue: deque[int] = deque()
    hits = 0
    for request in requests_of(blocks):
        hits += leading(request, held)
        for block in request:
            if block in held:
                continue
            held.add(block)
            queue.append(block)
            if len(queue) > capacity:
                held.discard(queue.popleft())
    return hits


def lfu_hits(blocks: Blocks, capacity: int) -> int:
    """Leading runs that hit when the block used least often since it came is evicted, of equals the least recent."""
    counts: dict[int, int] = {}
    used: dict[int, int] = {}
    heap: list[tuple[int, int, int]] = []
    hits = now = 0
    for request in requests_of(blocks):
        hits += leading(request, counts)
        for block in request:
            now += 1
            counts[block] = counts.get(block, 0) + 1
            used[block] = now
            heappush(heap, (counts[block], now, block))
            while len(counts) > capacity:
                _, moment, rarest = heappop(heap)
                if used.get(rarest) == moment:  # else it has been used since
                    del counts[rarest], used[rarest]
    return hits


def belady_hits(blocks: Blocks, capacity: int) -> int:
    """Blocks found when the one needed again last is evicted (Belady, IBM Systems Journal 5(2), 1966).

    Block by block, with every block let in: no policy that knows only the past finds more.
    """
    ids = blocks.ids.tolist()
    following = _following(ids)
    held: dict[int, int] = {}
    heap: list[tuple[int, int]] = []
    hits = 0
    for at, block in enumerate(ids):
        hits += block in held
        while block not in held and len(held) >= capacity:
            need, farthest = heappop(heap)
            if held.get(farthest) == -need:
                del held[farthest]
        held[block] = following[at]
        heappush(heap, (-following[at], block))
    return hits


def _following(ids: list[int]) -> list[int]:
    """For each reference, the position of the next one to the same block; beyond the end when there is none."""
    following, seen = [len(ids)] * len(ids), dict[int, int]()
    for at in range(len(ids) - 1, -1, -1):
        following[at] = seen.get(ids[at], len(ids))
        seen[ids[at]] = at
    return following


def requests_of(blocks: Blocks) -> Iterator[list[int]]:
    """The block ids of one request after another."""
    ids, offsets = blocks.ids.tolist(), blocks.offsets.tolist()
    for begin, end in pairwise(offsets):
        yield ids[begin:end]


def leading(request: Sequence[int], held: Container[int]) -> int:
    """Blocks at the front of the request that are held."""
    return next((at for at, block in enumerate(request) if block not in held), len(request))


POLICIES: dict[str, Callable[[Blocks, int], int]] = {"fifo": fifo_hits, "lfu": lfu_hits, "belady": belady_hits}
"""Beside "lru", which is the curve itself."""
