"""Recurrent states are kept in another dtype, or there are more or fewer of them.

Seen: mamba_cache_dtype, mamba_ssm_cache_dtype or max_mamba_cache_size in the engine's arguments.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("mamba-cache-dtype", "mamba-ssm-cache-dtype", "mamba-ssm-dtype", "max-mamba-cache-size"))
