"""Memory ran out after the weights, while the cache or the graphs were made.

Symptom: an out-of-memory error in the trial run, the allocation of the cache or the capture of graphs; SGLang:
"Capture cuda graph failed"; llama.cpp: "failed to allocate buffer for kv cache" or "failed to allocate compute".
SGLang's advice here is to LOWER --mem-fraction-static; for a pool that is too small it is the opposite.

Cause: the weights are in; the cache, the graphs or the memory of a step found too little left.

Do:
- llama.cpp, where the context is absolute: a smaller -c, fewer -np, or -ctk q8_0 -ctv q8_0
- Ollama: a smaller num_ctx or OLLAMA_CONTEXT_LENGTH, OLLAMA_NUM_PARALLEL=1, OLLAMA_KV_CACHE_TYPE=q8_0
- lower the share by 0.02 to 0.05: vLLM --gpu-memory-utilization, SGLang --mem-fraction-static, LMDeploy
  --cache-max-entry-count, TensorRT-LLM --kv_cache_free_gpu_memory_fraction
- capture fewer or no graphs: vLLM --max-num-seqs or --enforce-eager, SGLang --cuda-graph-max-bs
- shrink a step: vLLM --max-num-batched-tokens, SGLang --chunked-prefill-size, llama.cpp -ub

Source: https://github.com/sgl-project/sglang/issues/1751 https://github.com/vllm-project/vllm/issues/7593
https://github.com/sgl-project/sglang/issues/5285
"""

from __future__ import annotations

from kvlab.core.rule import Rule
from kvlab.rules._memory import OUT_OF_MEMORY, with_sizes

RULE = Rule(
    cost="setting",
    failures=("out_of_memory",),
    signs=OUT_OF_MEMORY,
    stages=("loaded", "sized"),
    advise=with_sizes,
    yields_to=("graph_capture_failed",),
)
