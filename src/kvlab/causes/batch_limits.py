"""The scheduler has other limits.

Seen: max_num_batched_tokens, max_num_seqs or the size of a prefill chunk. They set the peak of the profiling run, and
with it what is left for the pool; layers with a window keep as many tokens as are in flight.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("max_num_batched_tokens", "max_num_seqs", "async-scheduling", "performance-mode"))
