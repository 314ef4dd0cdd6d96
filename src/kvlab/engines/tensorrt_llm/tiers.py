"""TensorRT-LLM's host cache: the secondary pool, in which blocks lie that the primary pool on the GPU has no room for.

_torch/pyexecutor/resource_manager.py of 1.0 to 1.4: host_cache_size is in bytes, of each rank.
"""

from __future__ import annotations

from kvlab.core.engine import Carved, Deployment, Offloading, Tiered
from kvlab.core.errors import BadInput, shortened
from kvlab.core.model import Doubt
from kvlab.core.plan import Ask, Flag, computed
from kvlab.core.tiers import Tier, held
from kvlab.core.units import GIB, counted
from kvlab.engines._tiers.asked import exactly, host_gib, of_each, ranks, requests
from kvlab.engines.tensorrt_llm.arguments import flag_name

FLAG = "kv_cache_config.host_cache_size"


def host_bytes(ask: Ask) -> int | None:
    """host_cache_size: bytes of each rank; None without a host cache. Raises BadInput for what is no number."""
    stated = next((value for name, value in reversed(ask.engine_args) if flag_name(name) == FLAG), None)
    if ask.offload is None:
        if stated is None or not stated.strip().isdecimal() or int(stated[:20]) == 0:
            return None
        return int(stated[:20])
    if stated is not None:
        raise BadInput(f"--offload host and --engine-arg {FLAG}={shortened(stated)} say the same; give one of them")
    return int(host_gib(ask) * GIB) // ranks(ask)


def _tiers(deployment: Deployment, carved: Carved) -> Tiered:
    ask, size = deployment.ask, host_bytes(deployment.ask)
    if size is None:
        return Tiered()
    if ask.prefix_caching is False and ask.offload is not None:
        raise BadInput("--offload host keeps blocks for reuse; leave out --no-prefix-caching")
    block = carved.capacity.block_size if carved.capacity is not None else ask.block_size or 32
    per_token = carved.kv.bytes_per_token
    tokens = held(size, per_token * block, block)
    tier = Tier(
        name="host",
        kind="host",
        bytes=size * ranks(ask),
        bytes_per_rank=size,
        tokens=tokens,
        requests=requests(tokens, carved.context),
        granularity=block,
        flag=f"{FLAG}: {size}",
        because=f"bytes {of_each(ranks(ask))}; whole blocks of {counted(block, 'token')}",
    )
    doubts, expects = [], []
    if deployment.layout.windowed:
        text = "with a pool for each window size the host cache is divided among them; counted as one pool here"
        doubts.append(Doubt("offload", text))
    else:
        because = f"{size:,} bytes over the {per_token * block:,} of a block"
        expects.append(exactly("host_blocks", tokens // block, "blocks", 0.5, because))
    needs = computed("tier_host", tier.bytes, f"{FLAG} of each rank: pinned")
    return Tiered(tiers=(tier,), needs=(needs,), expects=tuple(expects), doubts=tuple(doubts))


def flags(ask: Ask) -> list[Flag]:
    """The entry of the YAML file for `--offload`; none without it."""
    if ask.offload is None:
        return []
    because = "bytes of host memory of each rank: blocks that leave the GPU are copied back, not computed again"
    return [Flag(FLAG, str(host_bytes(ask)), because)]


OFFLOADING = Offloading(
    kinds={"host": "the secondary pool of blocks in host memory, kv_cache_config.host_cache_size"},
    tiers=_tiers,
)
