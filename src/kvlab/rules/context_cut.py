"""Prompts are cut without a word to the client.

Symptom: Ollama: "truncating input prompt" limit=4096 prompt=16101; older: "input truncated | n_ctx=2048"; LMDeploy:
"`session_len` truncated to N due to limited KV cache memory"; TensorRT-LLM: "Attention window size N exceeds upper
bound M".

Cause: the context of this server is shorter than what the client sends, and the engine drops the beginning or the
middle instead of refusing. Ollama's default context depends on the GPU's memory: 4,096 below 23 GiB.

Do:
- Ollama: num_ctx in the request's options or the Modelfile, or OLLAMA_CONTEXT_LENGTH (the OpenAI endpoint takes no
  num_ctx)
- check that the longer cache fits: ollama ps shows CPU/GPU when it does not
- LMDeploy, TensorRT-LLM: a larger share for the cache, a smaller cache dtype, or a shorter --session-len /
  --max_seq_len so that clients are refused
- cut prompts at the client, where it is known what may go

Source: https://github.com/ollama/ollama/issues/10368 https://github.com/dzhng/deep-research/issues/107
https://github.com/InternLM/lmdeploy/issues/4366
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign


def _advise(case: Case, advice: Advice) -> Advice:
    limit, asked = case.last.number_of("limit"), case.last.number_of("asked")
    if limit is None:
        return advice
    if asked is None:
        return advice.replaced(f"the context ends at {limit:,.0f} tokens: {advice.why}")
    why = f"{asked:,.0f} tokens came and {limit:,.0f} were kept: {advice.why}"
    if case.first.engine == "ollama":
        return advice.replaced(why, f"give num_ctx {_enough(asked)} or OLLAMA_CONTEXT_LENGTH={_enough(asked)}", drop=1)
    return advice.replaced(why)


def _enough(tokens: float) -> int:
    """The next power of two that leaves room for an answer."""
    return 1 << max(int(tokens * 1.1), 1).bit_length()


RULE = Rule(
    cost="trade",
    signs=(
        Sign(
            pattern=re.compile(r"truncating input prompt\\?\" limit=(?P<limit>\d{1,9}) prompt=(?P<asked>\d{1,9})"),
            engines=("ollama",),
        ),
        Sign(pattern=re.compile(r"input truncated \|? ?n_ctx=(?P<limit>\d{1,9})"), engines=("ollama",)),
        Sign(
            pattern=re.compile(r"`?session_len`? truncated to (?P<limit>\d{1,9}) due to limited KV"),
            engines=("lmdeploy",),
        ),
        Sign(
            pattern=re.compile(
                r"Attention window size (?P<asked>\d{1,9}) exceeds upper bound (?P<limit>\d{1,9}) for available blocks"
            ),
            engines=("tensorrt-llm",),
        ),
    ),
    advise=_advise,
)
