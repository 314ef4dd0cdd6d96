"""A chain of tiers (GPU, CPU, SSD): what each finds, and what that saves before the first token.

Exclusive tiers hold each block once: what one evicts goes to the next, and what is found below comes back to the first.
Inclusive tiers are written through: each sees every block, so a lower tier also holds what those above it hold.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from kvlab.core.errors import BadInput, shortened
from kvlab.core.trace import Blocks
from kvlab.core.traffic import Tiers, TierUse
from kvlab.workload.policies import requests_of
from kvlab.workload.reuse import part_of

_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 1 << 10,
    "mi": 1 << 20,
    "gi": 1 << 30,
    "ti": 1 << 40,
}
_SIZE = re.compile(r"([\d.,_]+)\s*(?:([kmgt]i?)?(b))?", re.IGNORECASE)
_MOST = 8
MOST_BLOCKS = 1 << 40
"""Capacities above any cache's, and small enough that their bytes are exact."""
EXCLUSIVE = (
    "each block is held once: what a tier evicts goes to the next one, what is found below comes back to the first"
)
INCLUSIVE = "every block is written to all tiers, so a lower one also holds what those above it hold"


class Tier(NamedTuple):
    """A tier as it was asked for."""

    name: str
    blocks: int
    bytes_per_second: float | None


class Costs(NamedTuple):
    """What a token costs: to hold, and to compute."""

    bytes_per_token: int | None
    prefill_tokens_per_second: float | None


def blocks_in(text: str, block_bytes: int | None, what: str) -> int:
    """Blocks of "5000" (blocks), or of "80GiB" where a block's bytes are known. Raises BadInput."""
    found = _SIZE.fullmatch(text.strip())
    number = _number(found[1]) if found else None
    if found is None or number is None or not number > 0:
        raise BadInput(f"{what} {shortened(text)!r} must be a number of blocks, or of bytes as in 80GiB")
    if not found[3]:
        blocks = int(number) if number == int(number) else 0
    elif block_bytes is None:
        raise BadInput(f"{what} {shortened(text)!r} is in bytes: give --model, which says how many a token takes")
    else:
        blocks = int(number * _UNITS[(found[2] or "").lower()]) // block_bytes
    if not 1 <= blocks <= MOST_BLOCKS:
        raise BadInput(f"{what} {shortened(text)!r} must be from 1 to {MOST_BLOCKS:,} whole blocks")
    return blocks


def tier(text: str, block_bytes: int | None) -> Tier:
    """ "cpu:9000", "cpu:200GiB@50GB/s": a name, a size, the bandwidth to the GPU. Raises BadInput."""
    name, colon, rest = text.partition(":")
    size, at, speed = rest.partition("@")
    if not colon or not name.strip():
        raise BadInput(f"--tiers {shortened(text)!r} must be NAME:SIZE, as in gpu:5000,cpu:200GiB@50GB/s")
    found = _SIZE.fullmatch(speed.strip().lower().removesuffix("/s")) if at else None
    number = _number(found[1]) if found else None
    if at and (found is None or number is None or not number > 0):
        raise BadInput(f"--tiers {shortened(text)!r}: the bandwidth must be bytes a second, as in 50GB/s")
    bandwidth = None if found is None or number is None else number * _UNITS[(found[2] or "").lower()]
    return Tier(name.strip(), blocks_in(size, block_bytes, f"--tiers {name.strip()}"), bandwidth)


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").replace("_", ""))
    except ValueError:
        return None


def tiers(blocks: Blocks, asked: Sequence[Tier], inclusive: bool, costs: Costs) -> Tiers:
    """Blocks found in each tier. Raises BadInput for too many, or inclusive ones that grow smaller downwards."""
    if not 1 <= len(asked) <= _MOST:
        raise BadInput(f"--tiers takes 1 to {_MOST} tiers, not {len(asked)}")
    sizes = [one.blocks for one in asked]
    if inclusive and sizes != sorted(sizes):
        raise BadInput("--inclusive: each tier must be at least as large as the one above it, since it holds the same")
    hits = inclusive_hits(blocks, sizes) if inclusive else exclusive_hits(blocks, sizes)
    uses = tuple(
        _use(one, found, blocks, costs, first=at == 0) for at, (one, found) in enumerate(zip(asked, hits, strict=True))
    )
    saved = [use.ttft_saved_seconds for use in uses]
    known = [amount for amount in saved if amount is not None]
    return Tiers(
        kind="inclusive" if inclusive else "exclusive",
        tiers=uses,
        hit_blocks=sum(hits),
        hit_rate=part_of(sum(hits), len(blocks.ids)),
        ttft_saved_seconds=sum(known) if len(known) == len(saved) else None,
        definition=INCLUSIVE if inclusive else EXCLUSIVE,
    )


def _use(one: Tier, hits: int, blocks: Blocks, costs: Costs, *, first: bool) -> TierUse:
    """What a tier found, and what it saves a request on average: computing the tokens, less fetching them."""
    tokens, requests = hits * blocks.size, len(blocks.offsets) - 1
    per_token, prefill = costs
    fetch = 0.0 if first else None
    if not first and one.bytes_per_second and per_token:
        fetch = tokens * per_token / one.bytes_per_second
    saved = None if prefill is None or fetch is None else (tokens / prefill - fetch) / max(1, requests)
    return TierUse(
        name=one.name,
        capacity_blocks=one.blocks,
        capacity_bytes=None if per_token is None else one.blocks * blocks.size * per_token,
        hit_blocks=hits,
        hit_rate=part_of(hits, len(blocks.ids)),
        ttft_saved_seconds=saved,
    )


def exclusive_hits(blocks: Blocks, sizes: Sequence[int]) -> list[int]:
    """Blocks found in each of a chain of exclusive LRU tiers, block by block, a request's tail first."""
    chain: list[OrderedDict[int, None]] = [OrderedDict() for _ in sizes]
    found = [0] * len(sizes)
    near = chain[0]
    for request in requests_of(blocks):
        for block in reversed(request):
            if block in near:
                found[0] += 1
                near.move_to_end(block)
                continue
            for at in range(1, len(chain)):
                if block in chain[at]:
                    found[at] += 1
                    del chain[at][block]
                    break
            near[block] = None
            for at, size in enumerate(sizes):
                if len(chain[at]) <= size:
                    break
                evicted = chain[at].popitem(last=False)[0]
                if at + 1 < len(chain):
                    chain[at + 1][evicted] = None
    return found


def inclusive_hits(blocks: Blocks, sizes: Sequence[int]) -> list[int]:
    """Blocks that each tier finds and none above it does, every tier an LRU that sees all of them."""
    chain: list[OrderedDict[int, None]] = [OrderedDict() for _ in sizes]
    found = [0] * len(sizes)
    for request in requests_of(blocks):
        for block in reversed(request):
            at = next((at for at, held in enumerate(chain) if block in held), None)
            if at is not None:
                found[at] += 1
            for held, size in zip(chain, sizes, strict=True):
                held[block] = None
                held.move_to_end(block)
                if len(held) > size:
                    held.popitem(last=False)
    return found
