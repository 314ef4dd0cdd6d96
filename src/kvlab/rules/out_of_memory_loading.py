"""Memory ran out while the weights were loaded.

Symptom: an out-of-memory error after the engine began to load the model and before it said that it has.

Cause: the weights alone do not fit in what is free. The cache has no part in it yet: its settings do not help.

Do:
- see whether another process holds the GPU (nvidia-smi), and end it
- load weights of fewer bits (FP8, AWQ, a smaller GGUF quantisation)
- split the model over more GPUs (vLLM --tensor-parallel-size, SGLang --tp, llama.cpp --tensor-split)
- keep part of the weights in the machine's memory (vLLM --cpu-offload-gb, llama.cpp a lower -ngl), at the price of
  speed

Source: https://github.com/vllm-project/vllm/issues/28143 https://github.com/vllm-project/vllm/issues/31273
"""

from __future__ import annotations

from kvlab.core.rule import Rule
from kvlab.rules._memory import OUT_OF_MEMORY, with_sizes

RULE = Rule(cost="machine", failures=("out_of_memory",), signs=OUT_OF_MEMORY, stages=("loading",), advise=with_sizes)
