"""The model does not load.

Symptom: llama.cpp: "exiting due to model loading error", "failed to create context with model"; Ollama: "llama runner
process has terminated".

Cause: this is the last line of a failed load. A line above it says which part was refused.

Do:
- read the ten lines above it
- start with -lv 4 (OLLAMA_DEBUG=1): the reason may be hidden
- check that this build of llama.cpp knows the model's architecture

Source: https://github.com/ggml-org/llama.cpp/issues/10378
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(Sign(pattern=re.compile(r"llama runner process has terminated"), engines=("ollama",)),),
    consequence=True,
)
