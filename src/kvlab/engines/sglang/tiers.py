"""SGLang's tiers: HiCache, a pool of host memory beside each rank's pool on the GPU, and LMCache in its processes.

HiCache: mem_cache/memory_pool_host.py of 0.4.6 to 0.5.10, mem_cache/pool_host/base.py since. Its GB are 10^9 bytes;
the pools on the GPU are printed in GiB.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kvlab.core.engine import Carved, Deployment, Offloading, Tiered
from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.plan import Ask, Capacity, Expected, Flag, Launch, LedgerLine, computed
from kvlab.core.tiers import GB, Tier, number
from kvlab.core.units import GIB, HALF_DIGIT, counted
from kvlab.engines._tiers import lmcache
from kvlab.engines._tiers.asked import disk_gib, exactly, folder, host_gib, of_each, ranks, requests
from kvlab.engines.sglang.arguments import ratio
from kvlab.engines.sglang.dtypes import layer_bytes, packed
from kvlab.engines.sglang.parallel import attention_ranks, stages_of
from kvlab.engines.sglang.pools import Pools, pooled, row_layers
from kvlab.engines.sglang.versions import release

RATIO = 2.0
"""--hicache-ratio: tokens of the host pool for each on the GPU, SGLang's default."""
_RATIO_FLAG = "hicache-ratio"
_RESERVE = 10 * GIB  # SGLang refuses a pool that leaves less of the machine's memory free
_PLAIN = ("float16", "bfloat16", "fp8_e4m3", "fp8_e5m2")


def _tiers(deployment: Deployment, carved: Carved) -> Tiered:
    ask, pools = deployment.ask, pooled(deployment)
    if ask.offload is None:
        return Tiered()
    if ask.prefix_caching is False and ask.offload == "hicache":
        raise BadInput(
            "--offload hicache needs the radix cache: SGLang refuses both flags; leave out --no-prefix-caching"
        )
    plain = pools.dtype in _PLAIN and not pools.window and not pools.slot
    if ask.offload == "lmcache":
        return _lmcache(deployment, carved, pools if plain else None)
    return _hicache(deployment, carved, pools if plain else None)


def _token_bytes(deployment: Deployment, pools: Pools, *, index: bool) -> int:
    """Bytes of one token on the heaviest stage's rank: the index of sparse attention, or everything else."""
    ask, model, layout = deployment.ask, deployment.model, deployment.layout
    scaled = packed(model, layout, pools.dtype, release(ask), deployment.gpu)
    stages = [
        sum(
            row_layers(row, layout, ask, stage) * layer_bytes(row, pools.dtype, attention_ranks(ask), scaled)
            for row in layout.rows
            if (row.kind == "indexer") == index
        )
        for stage in stages_of(model, layout, ask)
    ]
    return max(stages) + (0 if index else pools.draft)


def rank_gb(ask: Ask) -> int:
    """--hicache-size: whole GB (10^9 bytes) of one rank. Raises BadInput for less than one."""
    whole = int(host_gib(ask) * GIB / ranks(ask) // GB)
    if whole < 1:
        each = host_gib(ask) / ranks(ask)
        raise BadInput(
            f"--offload-gib {ask.offload_gib:g} gives each rank {each:.2f} GiB, and --hicache-size takes whole GB; give"
            " more"
        )
    return whole


def _ratio(ask: Ask) -> float:
    return ratio(ask, _RATIO_FLAG, 1e6) or RATIO


class _Asked(NamedTuple):
    """What HiCache is asked for, of each rank."""

    tokens: int | None
    """Before whole pages are made of them; None: what a token takes is not known."""
    bytes: int
    flag: str
    unit: str


def _asked(ask: Ask, capacity: Capacity | None, token_bytes: int | None) -> _Asked:
    """A size, or by default a multiple of the tokens on the GPU. Raises BadInput where that multiple is not known."""
    if ask.offload_gib is not None:
        size = rank_gb(ask) * GB
        tokens = size // token_bytes if token_bytes else None
        return _Asked(tokens, size, f"--hicache-size {rank_gb(ask)}", "GB of 10^9 bytes")
    if capacity is None:
        raise BadInput("--offload hicache is sized by the pool on the GPU; give --offload-gib X, or --gpu NAME")
    if token_bytes is None:
        raise BadInput(
            "--offload hicache: what a multiple of this model's several pools takes is not known; give --offload-gib X"
        )
    tokens = int(capacity.tokens * _ratio(ask))
    flag = f"--{_RATIO_FLAG} {number(_ratio(ask))}"
    return _Asked(tokens, tokens * token_bytes, flag, "tokens of the pool on the GPU")


def _hicache(deployment: Deployment, carved: Carved, pools: Pools | None) -> Tiered:
    ask, capacity = deployment.ask, carved.capacity
    each = _token_bytes(deployment, pools, index=False) if pools is not None else None
    asked = _asked(ask, capacity, each)
    page = capacity.block_size if capacity is not None else pools.page if pools is not None else 1
    tokens, size, index = None, asked.bytes, 0
    if pools is not None and asked.tokens is not None and each is not None:
        tokens = (asked.tokens // page + 1) * page
        size, index = tokens * each, tokens * _token_bytes(deployment, pools, index=True)
    host = Tier(
        name="hicache",
        kind="host",
        bytes=(size + index) * ranks(ask) * ask.dp,
        bytes_per_rank=size + index,
        tokens=tokens,
        requests=requests(tokens, carved.context),
        granularity=page,
        flag=asked.flag,
        because=f"in {asked.unit}, {of_each(ranks(ask) * ask.dp)}; whole pages of {counted(page, 'token')}",
    )
    return Tiered(
        tiers=(host, *_disk(ask, each, page, carved.context)),
        needs=tuple(_needs(host)),
        expects=_expects(deployment, tokens, (size, index), page),
        doubts=tuple(_doubts(deployment, carved, pools, tokens)),
    )


def _disk(ask: Ask, each: int | None, page: int, context: int) -> tuple[Tier, ...]:
    if ask.offload_disk_gib is None:
        return ()
    share = int(disk_gib(ask) * GIB) // ranks(ask)
    tokens = None if not each else share // each // page * page
    tier = Tier(
        name="hicache",
        kind="disk",
        bytes=share * ranks(ask) * ask.dp,
        bytes_per_rank=share,
        tokens=tokens,
        requests=requests(tokens, context),
        granularity=page,
        flag=f"--hicache-storage-backend file, {folder(ask)}",
        because="the file backend takes no size here: what the folder's file system must hold",
    )
    return (tier,)


def _needs(tier: Tier) -> list[LedgerLine]:
    because = "HiCache refuses to start unless this much more is free"
    return [computed(f"tier_{tier.name}", tier.bytes, f"{tier.flag}: pinned"), computed("reserve", _RESERVE, because)]


def _expects(deployment: Deployment, tokens: int | None, sizes: tuple[int, int], page: int) -> tuple[Expected, ...]:
    """None where the sizes follow from a pool that is only estimated, or are split over several pools."""
    ask = deployment.ask
    known = ask.offload_gib is not None or ask.pool_gib is not None or ask.arg("max-total-tokens") is not None
    if tokens is None or not known:
        return ()
    size, index = sizes
    a_page = size / tokens * page
    because = "whole pages in the size of one rank; older releases leave the last one out"
    rows = [exactly("offload_tokens", tokens, "tokens", page, because)]
    rows.append(
        exactly("offload_rank_bytes", size, "bytes", HALF_DIGIT * GB + a_page, f"{tokens:,} tokens on each rank")
    )
    if index:
        because = f"{tokens:,} tokens of the index, beside --hicache-size"
        rows.append(exactly("offload_index_bytes", index, "bytes", HALF_DIGIT * GB + index / tokens * page, because))
    return tuple(rows)


def _doubts(deployment: Deployment, carved: Carved, pools: Pools | None, tokens: int | None) -> list[Doubt]:
    ask, found, capacity = deployment.ask, list[Doubt](), carved.capacity
    if pools is None:
        text = (
            "HiCache splits the size over several pools (windows, recurrent states) or stores another format here: how"
            " many tokens it holds is not computed"
        )
        found.append(Doubt("offload", text))
    if tokens is not None and capacity is not None and tokens <= capacity.tokens:
        text = (
            f"the host pool of {tokens:,} tokens is no larger than the {capacity.tokens:,} on the GPU: SGLang to 0.5.9"
            " or so refuses that, newer ones hold little more than the GPU; raise --offload-gib"
        )
        found.append(Doubt("offload-gib", text))
    if ask.offload_disk_gib is not None:
        text = "nothing here bounds SGLang's files: give the folder a file system or a quota of --offload-disk-gib"
        found.append(Doubt("offload-disk-gib", text))
    return found


def _lmcache(deployment: Deployment, carved: Carved, pools: Pools | None) -> Tiered:
    ask = deployment.ask
    each = None if pools is None else _token_bytes(deployment, pools, index=False)
    tiers = lmcache.tiers(ask, each, carved.context, latent=False)
    doubts = []
    if each is None or any(deployment.layout.only("latent", "indexer")):
        text = "what LMCache stores of this cache in SGLang is not known: a rank may hold more or fewer tokens"
        doubts.append(Doubt("offload", text))
    needs = [computed("tier_lmcache", tiers[0].bytes, f"{tiers[0].flag}, of each rank: pinned")]
    return Tiered(tiers=tiers, needs=tuple(needs), expects=lmcache.expects(tiers), doubts=tuple(doubts))


def flags(ask: Ask) -> list[Flag]:
    """The flags of `--offload`; none without it."""
    if ask.offload == "lmcache":
        return [
            lmcache.flag_of("--enable-lmcache", None),
            Flag("--lmcache-config-file", lmcache.FILE, "where LMCache reads its sizes"),
        ]
    if ask.offload != "hicache":
        return []
    found = [Flag("--enable-hierarchical-cache", None, "prefixes that leave the GPU stay in host memory and come back")]
    if ask.offload_gib is not None:
        because = "GB (10^9 bytes) of host memory of each rank: more prefixes come back, pinned memory is nobody else's"
        found.append(Flag("--hicache-size", str(rank_gb(ask)), because))
    elif ask.arg(_RATIO_FLAG) is None:
        because = "host tokens for each on the GPU, pinned: left out, 0.5.23 and later lower it to what is free"
        found.append(Flag(f"--{_RATIO_FLAG}", number(RATIO), because))
    if ask.offload_disk_gib is not None:
        because = "files below the host memory: slower, and kept over restarts"
        found.append(Flag("--hicache-storage-backend", "file", because))
    return found


def completed(launch: Launch, ask: Ask) -> Launch:
    """The command with the environment and the file that its tier reads."""
    if ask.offload == "lmcache":
        env = {**launch.env, "PYTHONHASHSEED": "0"}
        return replace(launch, env=env, files={**launch.files, lmcache.FILE: lmcache.text(ask, latent=False)})
    if ask.offload == "hicache" and ask.offload_disk_gib is not None:
        return replace(launch, env={**launch.env, "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR": folder(ask)})
    return launch


OFFLOADING = Offloading(
    kinds={
        "hicache": "SGLang's own: a host pool beside each rank's pool on the GPU, and files below it",
        "lmcache": "LMCache in the engine's processes: host memory and disk of each rank",
    },
    disk=("hicache", "lmcache"),
    unsized=("hicache",),
    tiers=_tiers,
)
