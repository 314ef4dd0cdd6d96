"""Prompts are computed again from the start.

Symptom: llama.cpp: "forcing full prompt re-processing due to lack of cache data", request after request.

Cause: layers with a window or a recurrent state keep only the end of a sequence. When a prompt differs before that
end, and no checkpoint from before the difference exists, all of it is computed again.

Do:
- keep the beginning of the prompt the same from turn to turn: no date, no dropped thinking, tools in one order
- more checkpoints: --ctx-checkpoints 128, -cms smaller
- with a window: --swa-full keeps all of it, at the price of memory
- as many slots as there are conversations, so that they do not take each other's state

Source: https://github.com/ggml-org/llama.cpp/pull/13194 https://github.com/ggml-org/llama.cpp/issues/20153
https://github.com/ggml-org/llama.cpp/issues/22746
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    certainty="likely",
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(r"forcing full prompt re-processing due to lack of cache data"),
            engines=("llamacpp", "ollama"),
        ),
    ),
    least=2,
)
