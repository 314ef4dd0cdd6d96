"""One request of the full context does not fit in the cache.

Symptom: vLLM ends with "To serve at least one request with the model's max seq len (N), (X GiB KV cache is needed,
which is larger than the available KV cache memory (Y GiB)"; before 0.8 with "max seq len (N) is larger than the
maximum number of tokens that can be stored in KV cache (M)". TensorRT-LLM's C++ runtime says that
maxTokensInPagedKvCache must be large enough to process at least 1 sequence; SGLang that the "SWA pool (M tokens) cannot
hold even one request".

Cause: the engine starts only if a single request of the longest allowed length fits in the pool that weights,
activations and graphs leave.

Do:
- lower the longest context to what the line states: vLLM --max-model-len, TensorRT-LLM --max_seq_len
- let the engine choose it: vLLM --max-model-len auto (from 0.14)
- give the cache more: vLLM --gpu-memory-utilization (on a CPU VLLM_CPU_KVCACHE_SPACE), SGLang --mem-fraction-static and
  --swa-full-tokens-ratio 1, TensorRT-LLM --kv_cache_free_gpu_memory_fraction
- shrink what is not cache: vLLM --max-num-seqs and --max-num-batched-tokens, vLLM --enforce-eager
- store the cache in fewer bytes, after a quality check: vLLM --kv-cache-dtype fp8, SGLang --kv-cache-dtype fp8_e4m3,
  TensorRT-LLM kv_cache_config.dtype fp8
- split the model over more GPUs, or load smaller weights

Source: https://github.com/vllm-project/vllm/issues/27508 https://github.com/vllm-project/vllm/issues/16118
https://github.com/NVIDIA/TensorRT-LLM/issues/542
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Hit, Rule

_NUMBERS = re.compile(
    r"max seq len \((?P<asked>[\d,]+)\)"
    r"(?:, \(?(?P<need>[\d.]+) GiB KV cache is needed.*?memory \((?P<have>[\d.]+) GiB\))?"
    r"(?:.*?stored in KV cache \((?P<tokens>\d+)\))?"
    r"(?:.*?estimated maximum model length is (?P<fits>\d+)(?=[.\s]))?"
)
_PAGED = re.compile(r"maxTokensInPagedKvCache \((?P<tokens>\d+)\)")


def _advise(case: Case, advice: Advice) -> Advice:
    found = _NUMBERS.search(case.first.line) or _PAGED.search(case.first.line)
    said = Hit(line="", number=0, groups=found.groupdict(default="") if found else {})
    asked, need, have = said.number_of("asked"), said.number_of("need"), said.number_of("have")
    fits = said.number_of("fits") or said.number_of("tokens")
    why, first = advice.why, advice.do[0]
    if asked and need and have and need > have:
        sizes = f"{need:g} GiB are needed for one request of {asked:,.0f} tokens and {have:g} GiB are there"
        why = f"{sizes}, {need - have:.2f} GiB too few: {why}"
        # A straight line through 0: windows and states make the true length longer, never much shorter.
        first = f"lower the longest context: about {asked * have / need:,.0f} tokens fit"
    elif asked and fits:
        why = f"one request may have {asked:,.0f} tokens and the pool holds {fits:,.0f}: {why}"
    if fits:
        flags = f"vLLM --max-model-len {fits:.0f}, TensorRT-LLM --max_seq_len {fits:.0f}"
        first = f"lower the longest context to {fits:,.0f} tokens, which fit: {flags}"
    return advice.replaced(why, first, drop=1)


RULE = Rule(cost="trade", advise=_advise)
