"""Several replicas: each with a cache of its own, one cache for all, or requests sent where their prefix is held."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from kvlab.core.columns import offsets
from kvlab.core.trace import Blocks
from kvlab.core.traffic import Replicas, Routing
from kvlab.workload.policies import leading, requests_of
from kvlab.workload.reuse import dense, part_of

_MATCH = 0.5
"""Share of a request's blocks that a replica must hold for the request to be sent there for their sake."""
DEFINITION = (
    "every replica is an LRU of that many blocks; round robin sends requests in turn; prefix-aware sends a request to"
    " the replica that holds most of its leading blocks, if it holds half of them, else to the one with the fewest"
    " blocks so far; shared is one cache as large as all of them together"
)


def replicas(blocks: Blocks, count: int, capacity: int) -> Replicas:
    """Hits of `count` replicas of `capacity` blocks each, by three ways of sending requests to them."""
    return Replicas(
        count=count,
        capacity_blocks=capacity,
        routing=(
            _routing("round robin", blocks, *_round_robin(blocks, count, capacity)),
            _routing("prefix-aware", blocks, *prefix_aware(blocks, count, capacity)),
            _routing("shared", blocks, lru_hits(blocks, count * capacity), None),
        ),
        definition=DEFINITION,
    )


def _routing(name: str, blocks: Blocks, hits: int, busiest: float | None) -> Routing:
    return Routing(name=name, hit_blocks=hits, hit_rate=part_of(hits, len(blocks.ids)), busiest=busiest)


def lru_hits(blocks: Blocks, capacity: int) -> int:
    """Leading runs that hit an LRU of that many blocks: a point of the exact curve."""
    from kvlab.workload.stack import distances

    blocks = dense(blocks)
    counts = np.diff(blocks.offsets)
    found = distances(blocks.ids, blocks.offsets, blocks.bound, last_short=np.zeros_like(counts), most=counts)
    return int(found.hits[: capacity + 1].sum())


def _round_robin(blocks: Blocks, count: int, capacity: int) -> tuple[int, float]:
    loads, hits = [], 0
    counts = np.diff(blocks.offsets)
    for turn in range(count):
        chosen = np.arange(len(counts)) % count == turn
        ids = blocks.ids[np.repeat(chosen, counts)]
        part = blocks._replace(ids=ids, offsets=offsets(counts[chosen]))
        hits += lru_hits(part, capacity) if len(ids) else 0
        loads.append(len(ids))
    return hits, _busiest(loads)


def prefix_aware(blocks: Blocks, count: int, capacity: int) -> tuple[int, float]:
    """Leading runs that hit, and how much more than its part the busiest replica is sent."""
    caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(count)]
    loads = [0] * count
    hits = 0
    for request in requests_of(blocks):
        found = [leading(request, held) for held in caches]
        best = max(range(count), key=lambda at: (found[at], -loads[at]))
        if found[best] < _MATCH * len(request):
            best = loads.index(min(loads))
        hits += found[best]
        loads[best] += len(request)
        held = caches[best]
        for block in reversed(request):
            held[block] = None
            held.move_to_end(block)
        while len(held) > capacity:
            held.popitem(last=False)
    return hits, _busiest(loads)


def _busiest(loads: list[int]) -> float:
    """The largest load as a multiple of the mean."""
    return max(loads) * len(loads) / max(1, sum(loads))
