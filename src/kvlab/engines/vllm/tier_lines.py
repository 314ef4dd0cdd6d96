"""What vLLM and its connectors say of a tier, 0.11 to 0.32."""

from __future__ import annotations

import re

from kvlab.core.observation import Said
from kvlab.core.tiers import GB
from kvlab.core.units import GIB
from kvlab.engines._tiers import lmcache_lines

_X = r"(\d+(?:\.\d+)?)"

SAID = (
    # "non-default args: {..., 'kv_offloading_size': 8.0}" (0.11.2 on): GiB of all ranks together
    Said("offload_size_bytes", "bytes", re.compile(rf"\bkv_offloading_size'?[=:] ?{_X}"), GIB),
    # "Created mmap file /dev/shm/vllm_offload_x.mmap (8.59 GB)": 10^9 bytes, of all ranks
    Said("offload_region_bytes", "bytes", re.compile(rf"Created mmap file \S*vllm_offload_\S+ \({_X} GB\)"), GB),
    # "Created TieringOffloadingManager with primary tier (lru, 4096 chunks) and 1 secondary tier(s)"
    Said("offload_blocks", "blocks", re.compile(r"with primary tier \(\w+, (\d+) chunks\)")),
    # "SimpleCPUOffloadScheduler: Allocating 4096 offload blocks (8.00 GB, mode=eager, backend=cpu)": GiB of one rank
    Said("offload_blocks", "blocks", re.compile(r"SimpleCPUOffloadScheduler: Allocating (\d+) offload blocks")),
    Said("offload_rank_bytes", "bytes", re.compile(rf"SimpleCPUOffloadConnector: .*per_rank={_X} GB"), GIB),
    # "Mooncake mode=embedded (global_segment_size=4294967296, local_buffer_size=4294967296, ..."
    Said("offload_rank_bytes", "bytes", re.compile(r"Mooncake mode=\w+ \(global_segment_size=(\d+)")),
    *lmcache_lines.SAID,
)
"""What vLLM and its connectors say of a tier."""
