"""Prefix reuse of a trace: what an endless cache would hit, and what an LRU cache of every size does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvlab.core.traffic import CurvePoint, Ideal, Reuse

if TYPE_CHECKING:
    from kvlab.core.trace import Blocks, Ints

_POINTS = 40
_SPARSE = 8
"""Ids a reference from which numbering them through costs less than a table of all of them."""
_PARTIAL = "its last, partial block counts as a block, and as its own tokens"
_WHOLE = "only whole blocks are cached, the tokens after them always miss"
DEFINITION = (
    "a request hits the longest leading run of its blocks that the cache held before it came; {partial}; its blocks"
    " then count as used, the first one last (the tail goes first, as vLLM and SGLang evict); no time passes, nothing"
    " is pinned, answers are not cached"
)


class Window(NamedTuple):
    """Which requests count: those from `first` on; the earlier ones only warm the cache."""

    first: int
    inputs: Ints


def reuse(blocks: Blocks, window: Window, capacities: Sequence[int], bytes_per_token: int | None) -> Reuse:
    """The curve in one pass, exact or of a sample; `capacities` (blocks) are points beside the ones chosen here.

    Raises BadInput for a sample that holds no block.
    """
    if blocks.sample is not None:
        from kvlab.workload.sampled import sampled_reuse

        return sampled_reuse(blocks, window, capacities, bytes_per_token)
    from kvlab.workload.stack import distances

    blocks = dense(blocks)
    counts = np.diff(blocks.offsets)
    found = distances(
        blocks.ids,
        blocks.offsets,
        blocks.bound,
        last_short=blocks.last_short,
        most=counts,
        first=window.first,
    )
    hits = np.cumsum(found.hits)
    tokens = hits * blocks.size - np.cumsum(found.short)
    references, all_tokens = int(counts[window.first :].sum()), int(window.inputs[window.first :].sum())
    deepest = int(np.flatnonzero(found.hits)[-1]) if hits[-1] else 0
    curve = tuple(
        CurvePoint(
            capacity_blocks=at,
            capacity_tokens=at * blocks.size,
            capacity_bytes=None if bytes_per_token is None else at * blocks.size * bytes_per_token,
            hit_rate=part_of(hits[min(at, len(hits) - 1)], references),
            hit_blocks=int(hits[min(at, len(hits) - 1)]),
            token_hit_rate=part_of(tokens[min(at, len(hits) - 1)], all_tokens),
            hit_tokens=int(tokens[min(at, len(hits) - 1)]),
        )
        for at in points(deepest, capacities)
    )
    held = counts[window.first :]
    shares = found.leading[window.first :][held > 0] / held[held > 0]
    ideal = Ideal(
        block_weighted=part_of(hits[-1], references),
        token_weighted=part_of(tokens[-1], all_tokens),
        request_weighted=float(shares.mean()) if len(shares) else 0.0,
        hit_blocks=int(hits[-1]),
        hit_tokens=int(tokens[-1]),
        unique_blocks=int(np.bincount(blocks.ids, minlength=1).astype(np.bool_).sum()),
    )
    return Reuse(
        block_size=blocks.size,
        requests=len(held),
        blocks=references,
        tokens=all_tokens,
        ideal=ideal,
        curve=curve,
        definition=defined(partial=bool(blocks.last_short.any())),
    )


def defined(partial: bool) -> str:
    """What counts as a hit, where the log's last blocks are partial or not there."""
    return DEFINITION.format(partial=_PARTIAL if partial else _WHOLE)


def part_of(hit: int, of: int) -> float:
    """The share, 0 of nothing."""
    return int(hit) / of if of else 0.0


def dense(blocks: Blocks) -> Blocks:
    """The same blocks with ids that are numbered through, where they are sparse (hashes)."""
    if blocks.bound <= _SPARSE * len(blocks.ids) + 1024:
        return blocks
    return numbered(blocks)[0]


def numbered(blocks: Blocks) -> tuple[Blocks, Ints]:
    """The same blocks with ids that are numbered through, and what each was called before, ascending."""
    if blocks.bound > _SPARSE * len(blocks.ids) + 1024:
        known, ids = np.unique(blocks.ids, return_inverse=True)
        return blocks._replace(ids=ids, bound=len(known)), known.astype(np.int64)
    names = np.flatnonzero(np.bincount(blocks.ids))
    number = np.zeros(blocks.bound, dtype=np.int32)
    number[names] = np.arange(len(names))
    return blocks._replace(ids=number[blocks.ids], bound=len(names)), names


def points(deepest: int, asked: Sequence[int]) -> list[int]:
    """Capacities on a logarithmic scale up to the one that hits all there is, and those asked for."""
    if deepest == 0:
        return sorted(set(asked))
    spread = np.unique(np.geomspace(1, deepest, _POINTS).round().astype(np.int64))
    return sorted({*(int(at) for at in spread), *asked})
