"""Prefix caching is on or off, unlike in the plan.

Seen: enable_prefix_caching or disable_radix_cache in the engine's arguments. On models with recurrent layers it decides
how many states a request keeps, and how large a block is.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("prefix_caching", "mamba_cache_mode"))
