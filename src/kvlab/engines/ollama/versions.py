"""Ollama's releases, and what changed with them."""

from __future__ import annotations

import re

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask
from kvlab.engines.ollama import ENGINE

Release = tuple[int, int, int]
OLDEST_DEFAULT = (0, 9, 0)  # the oldest release whose default context is known here
CONTEXT_TIERS = (0, 15, 5)  # the default context follows the GPUs' memory
CHILD = (0, 30, 0)  # every model runs in a llama-server of its own


def release(ask: Ask) -> Release:
    """The release whose rules apply: the asked one, or this folder's own. Raises BadInput when it cannot be read."""
    text = ask.engine_version or ENGINE.version
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text.strip())
    if found is None:
        raise BadInput(f"engine version {text!r} is not an Ollama release; write it as {ENGINE.version}")
    return int(found[1]), int(found[2]), int(found[3] or 0)
