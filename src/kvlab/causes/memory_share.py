"""The engine was given another share of the GPU's memory.

Seen: the share that the log states (vLLM's gpu_memory_utilization, SGLang's mem_fraction_static, LMDeploy's
cache_max_entry_count, TensorRT-LLM's free_gpu_memory_fraction) is not the plan's.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("util",))
