"""LMDeploy's releases, and what changed with them."""

from __future__ import annotations

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask
from kvlab.core.releases import Release, parsed
from kvlab.engines.lmdeploy import ENGINE

SHARE_OF_FREE = (0, 2, 2)  # cache_max_entry_count was a share of all the memory in 0.2.0 and 0.2.1
METRICS_ON = (0, 11, 0)  # 0.10 wants --enable-metrics
OBJECT_CACHE = (0, 16, 0)  # TurboMind has one region for all cached objects, and no longer prints blocks
MODELS_READ = (0, 18, 99)  # the release whose lists of models were read
EIGHT_BIT_FLOATS = (0, 18, 0)  # fp8 and turbo_quant were read in 0.18


def release(ask: Ask) -> Release:
    """The release whose rules apply. Raises BadInput when it cannot be read, or shares memory by an older rule."""
    text = ask.engine_version or ENGINE.version
    numbers = parsed(text, "an LMDeploy release", ENGINE.version)
    if numbers < SHARE_OF_FREE:
        raise BadInput(f"LMDeploy {text} shares all the memory out, which is not planned; plan for 0.2.2 or later")
    return numbers
