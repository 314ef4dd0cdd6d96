"""Requests are longer than the server allows.

Symptom: vLLM: "This model's maximum context length is N tokens. However, you requested M"; SGLang: "The input (N
tokens) is longer than the model's context length (M tokens)"; llama.cpp: "exceeds the available context size";
LMDeploy: "exceeds session_len".

Cause: prompt plus asked output is above the longest context of this server. The client got an error; others are
served.

Do:
- ask for less output (max_tokens), or cut the prompt
- raise the limit if the pool and the model allow it: vLLM --max-model-len, SGLang --context-length, LMDeploy
  --session-len; llama.cpp divides -c by -np unless --kv-unified is given
- kvlab plan tells the longest request that fits

Source: https://github.com/ggml-org/llama.cpp/pull/15780 https://github.com/containers/ramalama/issues/1914
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign

_LLAMA = r"request \((?P<asked>\d+) tokens\) exceeds the available context size \((?P<limit>\d+) tokens\)"


def _advise(case: Case, advice: Advice) -> Advice:
    asked, limit = case.first.number_of("asked"), case.first.number_of("limit")
    if not asked or not limit:
        return advice
    why = f"a request had {asked:,.0f} tokens and {limit:,.0f} are allowed"
    return advice.replaced(why, f"bring requests below {limit:,.0f} tokens, output included", drop=1)


RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"maximum context length is (?P<limit>[\d,]+) tokens.{0,80}?(?:requested|contains at least|has)"
                r" (?P<asked>[\d,]+)"
            ),
            engines=("vllm",),
        ),
        Sign(
            pattern=re.compile(
                r"input \((?P<asked>\d+) tokens\) is longer than the model's context length \((?P<limit>\d+)"
            ),
            engines=("sglang",),
        ),
        Sign(
            pattern=re.compile(_LLAMA + r"|the request exceeds the available context size"),
            engines=("llamacpp", "ollama"),
        ),
        Sign(
            pattern=re.compile(r"total sequence length \((?P<asked>\d+)[^)]*\) exceeds (?:`?session_len)"),
            engines=("lmdeploy",),
        ),
        Sign(
            pattern=re.compile(r"[Pp]rompt length \((?P<asked>\d+)\) exceeds maximum input length \((?P<limit>\d+)\)"),
            engines=("tensorrt-llm",),
        ),
    ),
    advise=_advise,
)
