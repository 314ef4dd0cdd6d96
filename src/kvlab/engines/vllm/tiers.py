"""vLLM's tiers: its own offloading, LMCache in its processes, a Mooncake store.

Native sizes: vllm/config/vllm.py, v1/kv_offload/cpu/spec.py and kv_connector/v1/offloading/config.py of 0.32.0.
"""

from __future__ import annotations

from msgspec.structs import replace

from kvlab.core.engine import Carved, Deployment, Offloading, Tiered
from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.plan import Ask, Expected, LedgerLine, computed
from kvlab.core.tiers import GB, Tier, held
from kvlab.core.units import GIB, HALF_DIGIT, counted, round_up
from kvlab.engines._tiers import lmcache
from kvlab.engines._tiers.asked import disk_gib, exactly, folder, for_each_replica, ranks, requests
from kvlab.engines.vllm.carving import Carving, carving
from kvlab.engines.vllm.connectors import MANAGER_SINCE, turns_manager_off
from kvlab.engines.vllm.offload import MOONCAKE_FILE, STAGING, flag_gib, latent, segment
from kvlab.engines.vllm.platform import on_cpu
from kvlab.engines.vllm.versions import Release, release

_SINCE: dict[str, Release] = {"native": (0, 11, 2), "lmcache": (0, 9, 0), "mooncake": (0, 21, 0)}
"""The first release whose flags are known: --kv-offloading-size, public logs with LMCacheConnectorV1, PR 40900."""
_READ: Release = (0, 32, 0)
"""The release whose sources the sizes were read in."""
_PAGE = 4096  # a chunk of the region that ranks share begins on a page
_SWITCH = "disable-hybrid-kv-cache-manager"
_PLAIN = ("bfloat16", "float16", "float32", "fp8", "fp8_e4m3", "fp8_e5m2")


def _tiers(deployment: Deployment, carved: Carved) -> Tiered:
    ask = deployment.ask
    if ask.offload is None:
        return Tiered()
    _check(deployment)
    plan = carving(deployment, carved.context)
    tiers, found = _OF[ask.offload](deployment, plan)
    return Tiered(
        tiers=tiers,
        needs=tuple(_needs(ask, tiers)),
        expects=found,
        doubts=tuple(_doubts(deployment, carved, plan)),
    )


def _check(deployment: Deployment) -> None:
    """Raises BadInput for what vLLM refuses, and for releases whose tiers are not known here."""
    ask, kind = deployment.ask, deployment.ask.offload or ""
    since = _SINCE[kind]
    if release(ask) < since:
        first = ".".join(map(str, since))
        raise BadInput(f"--offload {kind}: kvlab knows it in vLLM {first} and later; name a newer --engine-version")
    if ask.arg("kv-transfer-config") is not None:
        raise BadInput("--offload and --engine-arg kv-transfer-config both name a connector; give one of them")
    if ask.prefix_caching is False and kind != "lmcache":
        raise BadInput(f"--offload {kind} finds tokens by the prefix cache's hashes; leave out --no-prefix-caching")
    if kind == "native" and on_cpu(deployment.gpu):
        raise BadInput("--offload native: vLLM offloads from CUDA, ROCm and XPU devices only; leave it out on a CPU")
    if any(deployment.layout.only("state")) and turns_manager_off(ask) is not None and ask.arg(_SWITCH) is None:
        raise BadInput(
            f"--offload {kind} turns off vLLM's hybrid cache manager, without which a model with recurrent state does"
            " not start; use native or mooncake with vLLM 0.22 or later"
        )
    if ask.offload_disk_gib is not None and kind == "native" and release(ask) < _READ:
        raise BadInput("--offload-disk-gib: kvlab knows vLLM's disk tier in 0.32 and later; use --offload lmcache")


def _copies(deployment: Deployment) -> int:
    """Copies of a block in the region: one of each rank's part, or a single one where ranks hold the same latents."""
    ask = deployment.ask
    alike = latent(deployment) and ask.pp == 1 and ask.dcp == 1 and release(ask) >= _READ
    return 1 if alike else ranks(ask)


def _native(deployment: Deployment, plan: Carving) -> tuple[tuple[Tier, ...], tuple[Expected, ...]]:
    ask, copies = deployment.ask, _copies(deployment)
    given = int(float(flag_gib(ask)) * GIB)
    chunk = round_up(max(plan.stage_bytes) * copies, _PAGE) if plan.groups else None
    blocks = given // chunk if chunk else None
    size = given if blocks is None or chunk is None else blocks * chunk
    per_block = plan.block_size * ask.dcp
    tokens = None if blocks is None else blocks // len(plan.groups) * per_block
    how = "one copy that all ranks read" if copies == 1 and ranks(ask) > 1 else f"over {counted(ranks(ask), 'rank')}"
    pieces = f"whole blocks of {counted(per_block, 'token')}"
    host = Tier(
        name="native",
        kind="host",
        bytes=size * ask.dp,
        bytes_per_rank=size if copies == 1 else size // ranks(ask),
        tokens=tokens,
        requests=requests(tokens, plan.context),
        granularity=per_block,
        shared=True,
        flag=f"--kv-offloading-size {flag_gib(ask)}",
        because=f"GiB {how}{for_each_replica(ask)}, a region of /dev/shm; {pieces}",
    )
    found = [exactly("offload_size_bytes", given, "bytes", 0.5, "--kv-offloading-size")]
    if blocks is not None and chunk is not None:
        because = f"{given:,} bytes over the {chunk:,} of a block on all ranks"
        found = [
            *([] if ask.offload_disk_gib is not None else found),
            exactly("offload_blocks", blocks, "blocks", 0.5, because),
            exactly("offload_region_bytes", size, "bytes", HALF_DIGIT * GB, f"{blocks:,} blocks of {chunk:,} bytes"),
        ]
    return (host, *_native_disk(ask, plan, chunk)), tuple(found)


def _native_disk(ask: Ask, plan: Carving, chunk: int | None) -> tuple[Tier, ...]:
    if ask.offload_disk_gib is None:
        return ()
    size, per_block = int(disk_gib(ask) * GIB), plan.block_size * ask.dcp
    tokens = None if chunk is None else size // chunk // len(plan.groups) * per_block
    tier = Tier(
        name="native",
        kind="disk",
        bytes=size * ask.dp,
        bytes_per_rank=size // ranks(ask),
        tokens=tokens,
        requests=requests(tokens, plan.context),
        granularity=per_block,
        flag=f"secondary_tiers: fs, {folder(ask)}",
        because="vLLM's file tier takes no size: what the folder's file system must hold",
    )
    return (tier,)


def _lmcache(deployment: Deployment, plan: Carving) -> tuple[tuple[Tier, ...], tuple[Expected, ...]]:
    known = plan.dtype in _PLAIN and not any(deployment.layout.only("indexer")) and not deployment.layout.pooled
    tiers = lmcache.tiers(deployment.ask, plan.token_bytes if known else None, plan.context, latent=latent(deployment))
    chunk = exactly("offload_chunk", lmcache.CHUNK, "tokens", 0, f"chunk_size in {lmcache.FILE}")
    return tiers, (*lmcache.expects(tiers), chunk)


def _mooncake(deployment: Deployment, plan: Carving) -> tuple[tuple[Tier, ...], tuple[Expected, ...]]:
    ask, given = deployment.ask, segment(deployment.ask)
    per_block = plan.block_size * ask.dcp
    tokens = held(given, max(plan.stage_bytes) * len(plan.groups), per_block) if plan.groups else None
    tier = Tier(
        name="mooncake",
        kind="remote",
        bytes=given * ranks(ask) * ask.dp,
        bytes_per_rank=given,
        tokens=tokens,
        requests=requests(tokens, plan.context),
        granularity=per_block,
        flag=f"global_segment_size: {given} in {MOONCAKE_FILE}",
        because="bytes that each rank adds to the store, which all servers of one master share",
    )
    return (tier,), (exactly("offload_rank_bytes", given, "bytes", 0.5, tier.flag),)


_OF = {"native": _native, "lmcache": _lmcache, "mooncake": _mooncake}


def _needs(ask: Ask, tiers: tuple[Tier, ...]) -> list[LedgerLine]:
    found = [
        computed(f"tier_{tier.name}", tier.bytes, f"{tier.flag}: pinned where the driver lets it be")
        for tier in tiers
        if tier.kind != "disk"
    ]
    if ask.offload == "mooncake":
        size = STAGING * ranks(ask) * ask.dp
        found.append(computed("mooncake_buffers", size, f"local_buffer_size of {counted(ranks(ask) * ask.dp, 'rank')}"))
    return found


def _doubts(deployment: Deployment, carved: Carved, plan: Carving) -> list[Doubt]:
    ask, kind = deployment.ask, deployment.ask.offload or ""
    found = []
    if kind != "lmcache" and release(ask) < _READ:
        text = f"the size of a block in vLLM's {kind} tier was read in 0.32; an older release may round it otherwise"
        found.append(Doubt("offload", text))
    if kind == "mooncake" and latent(deployment) and ranks(ask) > 1:
        text = "whether ranks store the same latents once in Mooncake is not known: counted as a copy for each"
        found.append(Doubt("offload", text))
    if not plan.groups:
        found.append(Doubt("offload", "how many tokens the tier holds is not computed for this cache"))
    elif len(plan.groups) > 1 and kind != "lmcache":
        text = (
            f"tokens of the tier are counted as if all {len(plan.groups)} groups of layers stored every block; what it"
            " keeps of windows and states may be less, and more fits then"
        )
        found.append(Doubt("offload", text))
    if kind == "lmcache" and (plan.dtype not in _PLAIN or any(deployment.layout.only("indexer"))):
        found.append(Doubt("offload", f"what LMCache stores of a token in {plan.dtype} with this layout is not known"))
    if kind == "native" and ask.offload_disk_gib is not None:
        text = "vLLM's file tier deletes nothing: bound the folder by a file system or a quota of --offload-disk-gib"
        found.append(Doubt("offload-disk-gib", text))
    return [*found, *_manager(deployment, carved)]


def _manager(deployment: Deployment, carved: Carved) -> list[Doubt]:
    """What the GPU's pool loses because the connector turns the hybrid cache manager off."""
    ask, pool = deployment.ask, deployment.pool_bytes
    connector = turns_manager_off(ask)
    if connector is None or not deployment.layout.windowed or ask.arg(_SWITCH) is not None:
        return []
    kept = replace(ask, engine_args=(*ask.engine_args, (_SWITCH, "false")))
    other = carving(replace(deployment, ask=kept), carved.context)
    lost = ""
    if pool is not None and other.groups and carved.capacity is not None:
        would = other.num_blocks(pool) / other.request_blocks(carved.context)
        lost = f": {carved.capacity.max_concurrency:.2f} requests at once instead of {would:.2f}"
    instead = "--offload native keeps it on" if release(ask) >= MANAGER_SINCE else "vLLM 0.22 keeps it on for native"
    text = (
        f"{connector} turns vLLM's hybrid cache manager off, so layers with a window keep the whole context{lost};"
        f" planned so; {instead}"
    )
    return [Doubt(_SWITCH, text)]


OFFLOADING = Offloading(
    kinds={
        "native": "vLLM's own offloading to host memory, and files below it",
        "lmcache": "LMCache in the engine's processes: host memory and disk of each rank",
        "mooncake": "a Mooncake store over the memory of all servers",
    },
    disk=("native", "lmcache"),
    tiers=_tiers,
)
