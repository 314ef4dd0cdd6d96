"""Adapters take memory.

Seen: enable_lora in the engine's arguments. Room for the adapters of all slots is taken before the pool is sized.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("enable-lora",), unplanned=True)
