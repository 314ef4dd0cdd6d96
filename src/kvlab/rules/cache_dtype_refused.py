"""The cache dtype is refused.

Symptom: "argument --kv-cache-dtype: invalid choice", "Unsupported kv_cache_dtype", llama.cpp "Unsupported cache
type", TensorRT-LLM "Cannot support ... KV cache".

Cause: each engine and release has its own list of names. fp8 is no llama.cpp type, q8_0 no vLLM one.

Do:
- name one of the dtypes that the line or --help lists; fp8 and fp8_e4m3 exist in vLLM and SGLang, q8_0 and q4_0 in
  llama.cpp and Ollama, int8 and fp8 in LMDeploy and TensorRT-LLM
- leave the dtype at auto
- upgrade the engine when the list lacks a dtype that its documentation has

Source: https://github.com/vllm-project/vllm/issues/42587
"""

from __future__ import annotations

from kvlab.core.rule import Rule

RULE = Rule(
    cost="setting",
    failures=("cache_type_refused",),
)
