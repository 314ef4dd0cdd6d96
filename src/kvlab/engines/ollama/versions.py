"""Ollama's releases, and what changed with them."""

from __future__ import annotations

from kvlab.core.plan import Ask
from kvlab.core.releases import Release, parsed
from kvlab.engines.ollama import ENGINE

OLDEST_DEFAULT = (0, 9, 0)  # the oldest release whose default context is known here
CONTEXT_TIERS = (0, 15, 5)  # the default context follows the GPUs' memory
CHILD = (0, 30, 0)  # every model runs in a llama-server of its own


def release(ask: Ask) -> Release:
    """The release whose rules apply: the asked one, or this folder's own. Raises BadInput when it cannot be read."""
    return parsed(ask.engine_version or ENGINE.version, "an Ollama release", ENGINE.version)
