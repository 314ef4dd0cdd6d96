"""Ollama turns requests away.

Symptom: "server busy, please try again. maximum pending requests exceeded", or "timed out waiting for llama runner to
start".

Cause: more requests wait than OLLAMA_MAX_QUEUE (512), or loading a model takes longer than OLLAMA_LOAD_TIMEOUT (5
minutes), often because models push each other out of memory.

Do:
- keep the model loaded: OLLAMA_KEEP_ALIVE=-1, and fewer models at once
- OLLAMA_NUM_PARALLEL above 1, if memory holds that many contexts
- slow disk: OLLAMA_LOAD_TIMEOUT=15m
- many clients are not what Ollama is made for: vLLM, SGLang or llama-server batch better

Source: https://docs.ollama.com/faq
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(r"maximum pending requests exceeded|timed out waiting for llama runner to start"),
            engines=("ollama",),
        ),
    ),
)
