"""No memory is left for the cache.

Symptom: vLLM: "No available memory for the cache blocks" or "Cannot auto-fit max_model_len". SGLang: "Not enough
memory. Please try to increase --mem-fraction-static" or "Loaded weights leave no GPU memory for the KV cache".
LMDeploy: "No enough gpu memory for kv cache", "... for runtime", "... for state cache". The share must rise here;
SGLang's advice for a failed graph capture is the opposite one.

Cause: weights and the memory of one step already take the share of the GPU that the engine may use, so the pool would
have no block.

Do:
- raise the share: vLLM --gpu-memory-utilization, SGLang --mem-fraction-static, LMDeploy --cache-max-entry-count
- see whether another process holds the GPU (nvidia-smi), and end it
- shrink a step: vLLM --max-num-batched-tokens and --max-num-seqs, SGLang --chunked-prefill-size, LMDeploy
  --max-prefill-token-num and --max-batch-size
- load smaller weights, or split the model over more GPUs

Source: https://github.com/sgl-project/sglang/issues/4330 https://github.com/sgl-project/sglang/issues/322
https://github.com/vllm-project/vllm/issues/26884
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule

_FRACTION = re.compile(r"mem[-_]fraction[-_]static=(\d\.\d+)")
_ABOVE = re.compile(r"Raise --mem-fraction-static above (\d\.\d+)")


def _advise(case: Case, advice: Advice) -> Advice:
    text = case.first.line
    if above := _ABOVE.search(text):
        return advice.replaced(advice.why, f"raise --mem-fraction-static above {above.group(1)}", drop=1)
    if now := _FRACTION.search(text):
        return advice.replaced(advice.why, f"raise --mem-fraction-static above its present {now.group(1)}", drop=1)
    return advice


RULE = Rule(cost="setting", advise=_advise)
