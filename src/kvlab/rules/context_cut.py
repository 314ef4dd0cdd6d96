"""Prompts are cut without a word to the client.

Symptom: Ollama: "truncating input prompt" limit=4096 prompt=16101; before 2025: "input truncated | n_ctx=2048".

Cause: the prompt is longer than the context of this server, and Ollama drops the beginning or the middle instead of
refusing. Its default context depends on the GPU's memory (4,096 below 23 GiB; 2,048 before 0.6).

Do:
- give num_ctx in the request's options or the Modelfile, or OLLAMA_CONTEXT_LENGTH to the server (the OpenAI endpoint
  takes no num_ctx)
- check that the longer cache fits: ollama ps shows CPU/GPU when it does not
- cut prompts at the client, where it is known what may go

Source: https://github.com/ollama/ollama/issues/10368 https://github.com/dzhng/deep-research/issues/107
https://github.com/RooCodeInc/Roo-Code/issues/1372
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
    enough = 1 << int(asked * 1.1).bit_length()  # the next power of two, with room for an answer
    return advice.replaced(
        f"{asked:,.0f} tokens came and {limit:,.0f} were kept: {advice.why}",
        f"give num_ctx {enough} in the request's options or the Modelfile, or OLLAMA_CONTEXT_LENGTH={enough}",
        drop=1,
    )


RULE = Rule(
    cost="trade",
    signs=(
        Sign(
            pattern=re.compile(
                r"truncating input prompt\\?\" limit=(?P<limit>\d{1,9}) prompt=(?P<asked>\d{1,9})(?= |$)"
            ),
            engines=("ollama",),
        ),
        Sign(pattern=re.compile(r"input truncated \|? ?n_ctx=(?P<limit>\d{1,9})"), engines=("ollama",)),
    ),
    advise=_advise,
)
