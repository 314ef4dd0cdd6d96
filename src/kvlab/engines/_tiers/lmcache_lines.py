"""The lines that LMCache prints in an engine's log."""

from __future__ import annotations

import re

from kvlab.core.observation import Said
from kvlab.core.units import GIB

SAID = (
    # "Creating LMCacheEngine with config: LMCacheEngineConfig(chunk_size=256, local_cpu=True, max_local_cpu_size=5.0, "
    # (to 0.3), "... {'chunk_size': 256, 'local_cpu': True, 'max_local_cpu_size': 5.0, ..." (since); its "GB" are GiB
    Said("offload_rank_bytes", "bytes", re.compile(r"\bmax_local_cpu_size'?[=:] ?'?(\d+(?:\.\d+)?)"), GIB),
    Said("offload_disk_rank_bytes", "bytes", re.compile(r"\bmax_local_disk_size'?[=:] ?'?(\d+(?:\.\d+)?)"), GIB),
    Said("offload_chunk", "tokens", re.compile(r"\bLMCache.*\bchunk_size'?[=:] ?(\d+)")),
    # "Adjusted CPU memory size from 40.00 GB to 22.31 GB (system available: 24.31 GB, reserve: 2.00 GB)" (latents)
    Said("offload_rank_bytes", "bytes", re.compile(r"Adjusted CPU memory size from [\d.]+ GB to (\d+\.\d+) GB"), GIB),
)
"""What LMCache says of its sizes."""
