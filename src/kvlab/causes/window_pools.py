"""Layers with a window have another share of the pool.

Seen: swa_full_tokens_ratio or disable_hybrid_swa_memory in SGLang's arguments.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("swa-full-tokens-ratio", "disable-hybrid-swa-memory"), engines=("sglang",))
