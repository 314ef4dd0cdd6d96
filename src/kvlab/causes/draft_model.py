"""A draft model takes its share.

Seen: a speculative configuration in the engine's arguments that the plan does not have. The draft's weights leave a
smaller pool, its layers make each block larger, and every drafted token keeps a state of its own.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("speculative-config", "speculative-algorithm", "speculative-num-draft-tokens"), unplanned=True)
