"""The engine shortened the context to what fits.

Symptom: LMDeploy: "`session_len` truncated to N due to limited KV cache memory"; TensorRT-LLM: "Attention window size
N exceeds upper bound M for available blocks"; Ollama: "llama-server load failed; reducing automatic context and
retrying once".

Cause: one request of the asked length does not fit in the pool, and the engine goes on with a shorter one instead of
ending. Longer requests are refused or, with a window, forget their beginning.

Do:
- ask for a context that fits, so that clients know: LMDeploy --session-len, TensorRT-LLM --max_seq_len, Ollama
  OLLAMA_CONTEXT_LENGTH
- give the cache more: LMDeploy --cache-max-entry-count, TensorRT-LLM --kv_cache_free_gpu_memory_fraction
- store the cache in fewer bytes: LMDeploy --quant-policy 8, TensorRT-LLM kv_cache_config.dtype fp8, Ollama
  OLLAMA_KV_CACHE_TYPE=q8_0
- TensorRT-LLM: --fail_fast_on_attention_window_too_large ends the start instead

Source: https://github.com/InternLM/lmdeploy/issues/4366 https://github.com/NVIDIA/TensorRT-LLM/pull/5974
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign


def _advise(case: Case, advice: Advice) -> Advice | None:
    limit, asked = case.last.number_of("limit"), case.last.number_of("asked")
    if limit is None:
        return advice
    later = case.tallies["allocated"].last if "allocated" in case.tallies else None
    if later is not None and later.number > case.last.number and (later.number_of("tokens") or 0) > limit:
        return None  # TensorRT-LLM first tries a small pool, to see what a step takes
    of = f" of {asked:,.0f}" if asked else ""
    return advice.replaced(f"{limit:,.0f}{of} tokens are left: {advice.why}")


RULE = Rule(
    cost="trade",
    signs=(
        Sign(
            pattern=re.compile(r"session_len` truncated to (?P<limit>\d{1,9}) due to limited KV"), engines=("lmdeploy",)
        ),
        Sign(
            pattern=re.compile(
                r"Attention window size (?P<asked>\d{1,9}) exceeds upper bound (?P<limit>\d{1,9}) for available blocks"
            ),
            engines=("tensorrt-llm",),
        ),
        Sign(
            name="allocated",
            pattern=re.compile(r"for max tokens in paged KV cache \((?P<tokens>\d{1,12})\)"),
            engines=("tensorrt-llm",),
        ),
        Sign(pattern=re.compile(r"llama-server load failed; reducing automatic context"), engines=("ollama",)),
    ),
    advise=_advise,
)
