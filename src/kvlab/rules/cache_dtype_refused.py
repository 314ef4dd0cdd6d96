"""The cache dtype is refused.

Symptom: "argument --kv-cache-dtype: invalid choice", "Unsupported kv_cache_dtype", llama.cpp "Unsupported cache
type", TensorRT-LLM "Cannot support ... KV cache".

Cause: each engine and release has its own list of names. fp8 is no llama.cpp type, q8_0 no vLLM one.

Do:
- name one of the dtypes that the line or --help lists: vLLM fp8 or fp8_e4m3, SGLang fp8_e4m3 or fp8_e5m2, llama.cpp
  q8_0 or q4_0, Ollama q8_0 or q4_0, LMDeploy int8 or fp8, TensorRT-LLM int8 or fp8
- leave the dtype at auto
- upgrade the engine when the list lacks a dtype that its documentation has

Source: https://github.com/vllm-project/vllm/issues/42587
"""

from __future__ import annotations

from kvlab.core.rule import Rule

RULE = Rule(cost="setting")
