"""CUDA graphs are on or off, unlike in the plan.

Seen: enforce_eager or disable_cuda_graph in the engine's arguments. Without graphs their memory goes to the pool.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("enforce-eager", "disable-cuda-graph", "cuda-graph-max-bs"))
