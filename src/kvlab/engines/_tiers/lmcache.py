"""LMCache inside the engine's processes: its configuration file and what a rank holds.

Sizes: lmcache/v1/config.py and storage_backend/local_{cpu,disk}_backend.py of 0.5.6: each rank takes
max_local_cpu_size x 2^30 bytes; with latent attention the first rank alone stores.
"""

from __future__ import annotations

import os
from typing import Literal

from kvlab.core.plan import Ask, Expected, Flag
from kvlab.core.tiers import Tier, held, number
from kvlab.core.units import GIB, HALF_DIGIT
from kvlab.engines._tiers.asked import disk_gib, exactly, folder, host_gib, ranks, requests

FILE = "lmcache.yaml"
ENVIRONMENT = {"LMCACHE_CONFIG_FILE": FILE, "PYTHONHASHSEED": "0"}
"""Where it looks for its file; ranks find each other's chunks by Python's hash, which must not be random."""
CHUNK = 256
"""Tokens of a chunk, the default: a shared prefix is found in whole chunks (save_unfull_chunk is off)."""


def storing(ask: Ask, *, latent: bool) -> int:
    """Ranks of one replica that store something."""
    return 1 if latent and ask.pp == 1 else ranks(ask)


def rank_gib(ask: Ask, *, latent: bool) -> tuple[str, str]:
    """max_local_cpu_size and max_local_disk_size, GiB of each rank that stores."""
    share = storing(ask, latent=latent)
    return number(host_gib(ask) / share), number(disk_gib(ask) / share)


def text(ask: Ask, *, latent: bool) -> str:
    """The configuration file."""
    memory, disk = rank_gib(ask, latent=latent)
    lines = [
        "# LMCache reads this where LMCACHE_CONFIG_FILE names it",
        "# tokens of a chunk: a shared prefix is found in whole chunks",
        f"chunk_size: {CHUNK}",
        "local_cpu: true",
        "# GiB of host memory, for each rank that stores",
        f"max_local_cpu_size: {memory}",
    ]
    if ask.offload_disk_gib is not None:
        place = folder(ask) if os.path.isabs(folder(ask)) else f"./{folder(ask)}"
        lines += [
            "# a folder of a fast disk, and GiB of it for each rank that stores",
            f'local_disk: "file://{place}/"',
            f"max_local_disk_size: {disk}",
        ]
    return "\n".join(lines) + "\n"


def tiers(ask: Ask, token_bytes: int | None, context: int, *, latent: bool) -> tuple[Tier, ...]:
    """Host memory, and disk where it was asked for. `token_bytes`: of one token on one rank; None: not known."""
    memory, disk = rank_gib(ask, latent=latent)
    sizes: tuple[tuple[Literal["host", "disk"], str], ...] = (("host", memory),)
    if ask.offload_disk_gib is not None:
        sizes = (*sizes, ("disk", disk))
    return tuple(_tier(ask, kind, size, token_bytes, context, latent=latent) for kind, size in sizes)


def _tier(
    ask: Ask, kind: Literal["host", "disk"], gibibytes: str, token_bytes: int | None, context: int, *, latent: bool
) -> Tier:
    share, each = storing(ask, latent=latent), int(float(gibibytes) * GIB)
    tokens = None if token_bytes is None else held(each, token_bytes * CHUNK, CHUNK)
    key = "max_local_cpu_size" if kind == "host" else "max_local_disk_size"
    who = "the first rank alone stores latents" if latent and share == 1 and ranks(ask) > 1 else "each rank has its own"
    return Tier(
        name="lmcache",
        kind=kind,
        bytes=each * share * ask.dp,
        bytes_per_rank=each,
        tokens=tokens,
        requests=requests(tokens, context),
        granularity=CHUNK,
        flag=f"{key}: {gibibytes} in {FILE}",
        because=f"GiB of one rank: {who}; whole chunks of {CHUNK} tokens",
    )


def expects(tiers: tuple[Tier, ...]) -> tuple[Expected, ...]:
    """What the log states of LMCache's tiers, the host's first."""
    names = {"host": "offload_rank_bytes", "disk": "offload_disk_rank_bytes"}
    return tuple(exactly(names[tier.kind], tier.bytes_per_rank, "bytes", HALF_DIGIT * GIB, tier.flag) for tier in tiers)


def flag_of(name: str, value: str | None) -> Flag:
    """The flag that turns LMCache on."""
    because = "the package lmcache, which keeps what leaves the GPU; its sizes, of each rank, are in its file"
    return Flag(name, value, because)
