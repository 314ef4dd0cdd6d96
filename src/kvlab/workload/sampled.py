"""The LRU curve from a sample of the blocks: SHARDS (Waldspurger et al., FAST 2015), fixed rate.

At rate R a block at depth d of the sample's stack has d - 1 sampled blocks above it, so about (d - 1) / R of all. What
misses is estimated as (misses in the sample) / R, and the rest of the references hit, whose number is known: this is
the paper's correction for samples that hold more or fewer references than R of all (SHARDS-adj, section 3.2).

Two things make a point wrong. Which blocks are in the sample: its variance is taken from groups of the sample, chosen
by hash. How deep a block lies: d - 1 is binomial, so the curve is read at both ends of that many blocks.
The two are added: a sample that holds too many blocks misses too often and finds blocks too deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvlab.core.errors import BadInput
from kvlab.core.hashing import mixed
from kvlab.core.traffic import CurvePoint, Ideal, Reuse, Sampled
from kvlab.workload.reuse import defined, dense, part_of, points

if TYPE_CHECKING:
    from kvlab.core.trace import Blocks, Floats, Ints
    from kvlab.workload.reuse import Window

_GROUPS = 32
_SURE = 2.04
"""Student's t for 95 % and _GROUPS - 1 degrees of freedom."""
_DEFINITION = (
    "SHARDS: blocks are kept by their hash, with all their references; a point's error is about 95 % confidence (the"
    f" spread of {_GROUPS} groups of the sample, and of the depth of a block)"
)


class _Seen(NamedTuple):
    """References of the sample in the window: depth (0: never found), tokens, group and request; `unique` of all."""

    depth: Ints
    tokens: Ints
    group: Ints
    request: Ints
    unique: int


class _Curve(NamedTuple):
    """Estimates for an ascending column of depths in the sample's stack: misses, their error, missed tokens."""

    misses: Floats
    error: Floats
    tokens: Floats


def sampled_reuse(blocks: Blocks, window: Window, capacities: Sequence[int], bytes_per_token: int | None) -> Reuse:
    """What `reuse` says, estimated. Raises BadInput for a sample without a block."""
    sample = blocks.sample
    assert sample is not None
    seen, rate = _seen(blocks, window.first), sample.rate
    held = sample.counts[window.first :]
    of, all_tokens = int(held.sum()), int(window.inputs[window.first :].sum())
    if not len(seen.depth):
        raise BadInput(f"a sample of {rate:.3g} of {of:,} block references holds none; give a larger --sample")
    in_blocks = of * blocks.size - int(sample.last_short[window.first :].sum())
    top = int(seen.depth.max())
    at = np.asarray(points(max(1, _blocks_at(top, rate)), capacities), dtype=np.int64)
    known = at[(at >= 1 / rate) | np.isin(at, np.asarray(capacities, dtype=np.int64))]
    at = known if len(known) else at
    curve = _curve(seen, np.floor(1 + (at - 1) * rate).astype(np.int64), rate)
    hits, tokens = np.clip(of - curve.misses, 0, of), np.clip(in_blocks - curve.tokens, 0, in_blocks)
    found = tuple(
        CurvePoint(
            capacity_blocks=int(capacity),
            capacity_tokens=int(capacity) * blocks.size,
            capacity_bytes=None if bytes_per_token is None else int(capacity) * blocks.size * bytes_per_token,
            hit_rate=hit / of,
            hit_blocks=round(hit),
            token_hit_rate=token / all_tokens if all_tokens else 0.0,
            hit_tokens=round(token),
            error=min(1.0, wrong / of),
        )
        for capacity, hit, token, wrong in zip(
            at.tolist(), hits.tolist(), tokens.tolist(), curve.error.tolist(), strict=True
        )
    )
    return Reuse(
        block_size=blocks.size,
        requests=len(held),
        blocks=of,
        tokens=all_tokens,
        ideal=_ideal(blocks, seen, window, in_blocks),
        curve=found,
        definition=defined(partial=bool(sample.last_short.any())),
        sampled=Sampled(
            rate=rate,
            references=len(seen.depth),
            blocks=seen.unique,
            error=max(point.error or 0.0 for point in found),
            definition=_DEFINITION,
        ),
    )


def _blocks_at(depth: int, rate: float) -> int:
    """Capacity that holds what lies at that depth of the sample's stack."""
    return int(np.ceil(1 + (depth - 1) / rate))


def _seen(blocks: Blocks, first: int) -> _Seen:
    from kvlab.workload.stack import depths

    group = (mixed(mixed(blocks.ids.astype(np.uint64))) % np.uint64(_GROUPS)).astype(np.int64)
    counts = np.diff(blocks.offsets)
    tokens = np.full(len(blocks.ids), blocks.size, dtype=np.int64)
    tokens[blocks.offsets[1:][counts > 0] - 1] -= blocks.last_short[counts > 0]
    numbered = dense(blocks)
    depth = depths(numbered.ids, numbered.offsets, numbered.bound)
    begin = blocks.offsets[first]
    request = np.repeat(np.arange(len(counts)), counts)
    unique = int(np.count_nonzero(np.bincount(numbered.ids, minlength=1)))
    return _Seen(depth[begin:], tokens[begin:], group[begin:], request[begin:], unique)


def _curve(seen: _Seen, reach: Ints, rate: float) -> _Curve:
    """Misses of caches that hold the first `reach` blocks of the sample's stack."""
    top = int(seen.depth.max())
    hits, tokens = np.bincount(seen.depth), np.bincount(seen.depth, weights=seen.tokens)
    never = hits[0]
    hits[0] = 0
    missed = never + hits.sum() - np.cumsum(hits)
    short = tokens.sum() - (np.cumsum(tokens) - tokens[0])
    found = seen.depth > 0
    bucket = np.searchsorted(reach, seen.depth[found])  # hits from that point on
    points_each = len(reach) + 1
    grouped = np.bincount(seen.group[found] * points_each + bucket, minlength=_GROUPS * points_each)
    all_of_group = np.bincount(seen.group, minlength=_GROUPS)[:, None]
    groups = all_of_group - np.cumsum(grouped.reshape(_GROUPS, points_each)[:, :-1], axis=1)
    chance = _SURE * np.sqrt(_GROUPS * groups.var(axis=0, ddof=1) * (1 - rate))
    spread = np.ceil(2 * np.sqrt(np.maximum(reach, 1) * (1 - rate))).astype(np.int64)
    beside = (missed[np.clip(reach - spread, 0, top)] - missed[np.clip(reach + spread, 0, top)]) / 2
    inside = np.clip(reach, 0, top)
    return _Curve(missed[inside] / rate, (chance + beside) / rate, short[inside] / rate)


def _ideal(blocks: Blocks, seen: _Seen, window: Window, in_blocks: int) -> Ideal:
    sample = blocks.sample
    assert sample is not None
    counts = sample.counts[window.first :]
    never = seen.depth == 0
    of, missed = int(counts.sum()), int(never.sum()) / sample.rate
    hit = min(max(0.0, of - missed), of)
    tokens = min(max(0.0, in_blocks - int(seen.tokens[never].sum()) / sample.rate), in_blocks)
    each = np.bincount(seen.request[never] - window.first, minlength=len(counts))[counts > 0] / counts[counts > 0]
    return Ideal(
        block_weighted=hit / of,
        token_weighted=part_of(round(tokens), int(window.inputs[window.first :].sum())),
        request_weighted=float(np.clip(1 - each.mean() / sample.rate, 0, 1)),
        hit_blocks=round(hit),
        hit_tokens=round(tokens),
        unique_blocks=round(seen.unique / sample.rate),
    )
