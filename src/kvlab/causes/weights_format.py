"""The weights are loaded in another format.

Seen: a dtype or a quantisation in the engine's arguments that the plan does not have.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("dtype", "quantization", "cpu-offload-gb", "language-model-only"), unplanned=True)
