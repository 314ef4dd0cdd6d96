"""An offload tier: where keys and values go that the GPU has no room for, and what of them comes back."""

from __future__ import annotations

from typing import Literal

import msgspec

GB = 10**9
"""SGLang's HiCache and vLLM's line about its shared region count in these, not in GiB."""
FOLDER = "kv-offload"
"""Where a disk tier lies unless `--offload-dir` says otherwise: beside the launch script."""


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """One tier below the GPU's cache, as the engine holds it.

    `tokens` and `requests` are those of one replica, as in Capacity: no request finds what another replica stored.
    None: how much one token takes there is not known.
    """

    name: str
    """As `--offload` has it: native, lmcache, mooncake, hicache, host, cache-ram."""
    kind: Literal["host", "disk", "remote"]
    bytes: int
    """Of the whole server."""
    bytes_per_rank: int
    """What one rank allocates, or its share of what ranks hold together."""
    tokens: int | None
    requests: float | None
    """Requests of the planned context that the tier holds beside those on the GPU."""
    granularity: int | None
    """Tokens of the smallest piece that is found again: a shorter shared prefix is computed anew. None: not known."""
    shared: bool = False
    """Whether it lies in /dev/shm, which must be as large."""
    flag: str
    """What the size becomes in the engine's own words and unit."""
    because: str


def held(size: int, piece_bytes: int, piece_tokens: int) -> int:
    """Tokens in `size` bytes of whole pieces (blocks, chunks, pages)."""
    return size // piece_bytes * piece_tokens if piece_bytes > 0 else 0


def number(amount: float) -> str:
    """A size for a flag, rounded down: no more digits than it needs, and no exponent ("64", "21.333333")."""
    down = int(amount * 1e6 + 1e-3) / 1e6
    return f"{down:.6f}".rstrip("0").rstrip(".")
