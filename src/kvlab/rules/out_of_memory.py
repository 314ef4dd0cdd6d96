"""Memory of the GPU ran out.

Symptom: "torch.OutOfMemoryError: CUDA out of memory", "cudaMalloc failed: out of memory" or the like, and no line
before it tells whether the engine was loading, sizing its cache or serving.

Cause: weights, cache, graphs and the memory of one step together need more than is free.

Do:
- see whether another process holds the GPU (nvidia-smi), and end it
- give the whole log: the lines before this one tell which part did not fit
- lower the share of the GPU that the cache takes, so that a step has room
- shorten the context, or load smaller weights, or use more GPUs

Source: https://docs.vllm.ai/en/latest/configuration/conserving_memory/
"""

from __future__ import annotations

from kvlab.core.rule import Rule
from kvlab.rules._memory import OUT_OF_MEMORY, with_sizes

RULE = Rule(
    cost="setting",
    signs=OUT_OF_MEMORY,
    stages=("",),
    advise=with_sizes,
    yields_to=("graph_capture_failed", "out_of_memory_sizing"),
)
