"""The model does not fit in memory at all.

Symptom: Ollama: "model requires more system memory (A) than is available (B)", "model request too large for system",
"model is too large for system memory".

Cause: Ollama adds weights, cache (num_ctx times OLLAMA_NUM_PARALLEL) and buffers before it loads, and what GPU and
machine have free is less.

Do:
- lower num_ctx or OLLAMA_CONTEXT_LENGTH, and OLLAMA_NUM_PARALLEL: the cache is context times parallel
- unload other models: ollama ps, ollama stop NAME, OLLAMA_MAX_LOADED_MODELS=1
- OLLAMA_FLASH_ATTENTION=1 with OLLAMA_KV_CACHE_TYPE=q8_0 halves the cache
- a smaller model or quantisation

Source: https://github.com/ollama/ollama/issues/13556 https://github.com/ollama/ollama/issues/15049
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign

_SIZES = re.compile(
    r"requires more system memory \((?P<asked>[\d.]+ \w+)\) than is available \((?P<free>[\d.]+ \w+)\)"
    r"|requested=\\?\"?(?P<requested>[\d.]+ \w+)\\?\"? available=\\?\"?(?P<available>[\d.]+ \w+)"
)


def _advise(case: Case, advice: Advice) -> Advice:
    found = _SIZES.search(case.first.line)
    if found is None:
        return advice
    asked, free = found["asked"] or found["requested"], found["free"] or found["available"]
    return advice.replaced(f"{asked} are needed and {free} are free: {advice.why}")


RULE = Rule(
    cost="trade",
    signs=(
        Sign(
            pattern=re.compile(r"model request too large for system"),
            engines=("ollama",),
        ),
    ),
    advise=_advise,
)
