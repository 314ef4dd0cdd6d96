"""The LRU curve from a sample of the blocks: SHARDS (Waldspurger et al., FAST 2015), fixed rate.

At rate R the first k blocks of the sample's stack are those of k / R of all, on average: of trials that succeed with
probability R, so many bring k successes. What misses is estimated from the sample, each of its blocks standing for its
part of all (`strata`), and the rest of the references hit, whose number is known: this goes beyond the paper's
correction for samples that hold more or fewer references than R of all (SHARDS-adj, section 3.2). R is what the sample
really holds of the blocks, where that is known.

Two things make a point wrong. Which blocks are in the sample: its variance is taken from groups of the sample, chosen
by hash. How deep a block lies, which is binomial: the curve is read at both ends of that many blocks; where the blocks
fill a cache n times over, n / 2 stacks are taken to err independently. The two are added: a sample that holds too many
blocks of a sort misses too often and finds blocks too deep. So 94 to 99 % of the points of samples of the traces in
tests/golden lie within their errors, at 1 to 30 %, of the whole trace and of its second half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvlab.core.errors import BadInput
from kvlab.core.traffic import CurvePoint, Ideal, Reuse, Sampled
from kvlab.workload.reuse import defined, numbered, part_of, points
from kvlab.workload.strata import GROUPS, Strata, strata

if TYPE_CHECKING:
    from kvlab.core.trace import Blocks, Floats, Ints
    from kvlab.workload.reuse import Window

_SURE = 2.04
"""Student's t for 95 % and GROUPS - 1 degrees of freedom."""
_STACK = 2
"""Contents of a cache that the blocks of one stand for: it is replaced bit by bit."""
_UNSEEN = 3
"""What a sample shows none of may still be as many of its references, with 95 % confidence (the rule of three)."""
_DEFINITION = (
    "SHARDS: blocks are kept by their hash, with all their references{weighted}; a point's error is about 95 %"
    f" confidence (the spread of {GROUPS} groups of the sample, and of the depth of a block)"
)
_WEIGHTED = ", and weighted by how many blocks of all are referred to as often"


class _Seen(NamedTuple):
    """References of the sample in the window: depth (0: never found), tokens and request; its blocks; R."""

    depth: Ints
    tokens: Ints
    request: Ints
    strata: Strata
    rate: float
    filling: float
    """Blocks of the sample that fill caches in the window, as its part of all references has it."""


class _Curve(NamedTuple):
    """Estimates for an ascending column of capacities: misses, their error, missed tokens."""

    misses: Floats
    error: Floats
    tokens: Floats


def sampled_reuse(blocks: Blocks, window: Window, capacities: Sequence[int], bytes_per_token: int | None) -> Reuse:
    """What `reuse` says, estimated. Raises BadInput for a sample without a block."""
    sample = blocks.sample
    assert sample is not None
    held = sample.counts[window.first :]
    of, all_tokens = int(held.sum()), int(window.inputs[window.first :].sum())
    if int(blocks.offsets[window.first]) == len(blocks.ids):
        raise BadInput(f"a sample of {sample.rate:.3g} of {of:,} block references holds none; give a larger --sample")
    seen = _seen(blocks, window.first)
    in_blocks = of * blocks.size - int(sample.last_short[window.first :].sum())
    deepest = int(np.ceil(int(seen.depth.max()) / seen.rate))
    at = np.asarray(points(max(1, deepest), capacities), dtype=np.int64)
    known = at[(at >= 1 / seen.rate) | np.isin(at, np.asarray(capacities, dtype=np.int64))]
    at = known if len(known) else at
    curve = _curve(seen, at)
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
            rate=sample.rate,
            references=len(seen.depth),
            blocks=seen.strata.unique,
            error=max(point.error or 0.0 for point in found),
            definition=_DEFINITION.format(weighted="" if seen.strata.known is None else _WEIGHTED),
        ),
    )


def _seen(blocks: Blocks, first: int) -> _Seen:
    from kvlab.workload.stack import depths

    assert blocks.sample is not None
    counts = np.diff(blocks.offsets)
    tokens = np.full(len(blocks.ids), blocks.size, dtype=np.int64)
    tokens[blocks.offsets[1:][counts > 0] - 1] -= blocks.last_short[counts > 0]
    here, names = numbered(blocks)
    parts = strata(here, names)
    depth = depths(here.ids, here.offsets, here.bound)
    begin = blocks.offsets[first]
    request = np.repeat(np.arange(len(counts)), counts)
    parts = parts._replace(stratum=parts.stratum[begin:], group=parts.group[begin:], weight=parts.weight[begin:])
    rate = blocks.sample.rate if parts.known is None else parts.unique / parts.known
    filling = parts.unique * (1 - begin / len(blocks.ids))
    return _Seen(depth[begin:], tokens[begin:], request[begin:], parts, rate, filling)


def _curve(seen: _Seen, capacities: Ints) -> _Curve:
    """What misses in caches of so many blocks."""
    top, weight = int(seen.depth.max()), seen.strata.weight
    missed = _deeper(seen.depth, weight)
    short = _deeper(seen.depth, weight * seen.tokens)
    reach = np.clip(capacities * seen.rate, 0, top)  # between whole depths the curve is a line
    depths = np.arange(top + 1)
    spread = 2 * np.sqrt(np.maximum(reach, 1) * (1 - seen.rate))
    ends = (np.interp(reach + side * spread, depths, missed) for side in (-1, 1))
    beside = np.subtract(*ends) / 2
    chance = _chance(seen, np.rint(reach).astype(np.int64))
    if seen.strata.known is not None:
        beside /= np.sqrt(np.maximum(1, seen.filling / (_STACK * np.maximum(reach, 1))))
    error = np.hypot(chance + beside, _UNSEEN / seen.rate)
    return _Curve(np.interp(reach, depths, missed), error, np.interp(reach, depths, short))


def _deeper(depth: Ints, weight: Floats) -> Floats:
    """The weight of what lies deeper than 0, 1, 2 ... blocks, or is never found."""
    found = np.bincount(depth, weights=weight)
    never, found[0] = found[0], 0
    total: Floats = never + found.sum() - np.cumsum(found)
    return total


def _chance(seen: _Seen, reach: Ints) -> Floats:
    """How far the misses of caches that hold the first `reach` blocks of the sample's stack are likely to be off."""
    of, (groups, kinds) = seen.strata, seen.strata.blocks.shape
    columns = len(reach) + 1
    bucket = np.where(seen.depth > 0, np.searchsorted(reach, seen.depth), columns - 1)  # hits from that point on
    cells = np.bincount((of.group * kinds + of.stratum) * columns + bucket, minlength=groups * kinds * columns)
    table = cells.reshape(groups, kinds, columns)
    misses = table.sum(axis=2, keepdims=True) - np.cumsum(table, axis=2)[:, :, :-1]
    if of.known is None:
        apart = misses * (of.each * np.sqrt(1 - seen.rate))[:, None]
    else:  # only what a stratum's blocks differ in is left to chance
        mean = misses.sum(axis=0) / of.blocks.sum(axis=0)[:, None]
        apart = (misses - of.blocks[:, :, None] * mean) * np.sqrt(of.each * np.maximum(of.each - 1, 0))[:, None]
    chance: Floats = _SURE * np.sqrt(groups * apart.sum(axis=1).var(axis=0, ddof=1))
    return chance


def _ideal(blocks: Blocks, seen: _Seen, window: Window, in_blocks: int) -> Ideal:
    sample = blocks.sample
    assert sample is not None
    counts = sample.counts[window.first :]
    never = seen.depth == 0
    weight = seen.strata.weight[never]
    of = int(counts.sum())
    hit = min(max(0.0, of - float(weight.sum())), of)
    tokens = min(max(0.0, in_blocks - float((seen.tokens[never] * weight).sum())), in_blocks)
    each = np.bincount(seen.request[never] - window.first, weights=weight, minlength=len(counts))
    known = seen.strata.known
    return Ideal(
        block_weighted=hit / of,
        token_weighted=part_of(round(tokens), int(window.inputs[window.first :].sum())),
        request_weighted=float(np.clip(1 - (each[counts > 0] / counts[counts > 0]).mean(), 0, 1)),
        hit_blocks=round(hit),
        hit_tokens=round(tokens),
        unique_blocks=round(seen.strata.unique / sample.rate) if known is None else known,
    )
