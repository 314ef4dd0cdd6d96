"""The cache of llama.cpp is full while slots generate.

Symptom: "failed to find free space in the KV cache, retrying with smaller batch size", "failed to find a memory slot
for batch of size", "Context size has been exceeded.".

Cause: with a unified cache every slot may use the whole context, and together they asked for more than there is. When
no space is found, all running requests end with an error.

Do:
- raise -c to slots times the longest request, if memory allows
- fewer slots (-np), or a cap for each: --kv-unified-per-slot
- give each slot its own part: -np N without --kv-unified
- a smaller cache dtype pays for a larger -c: -ctk q8_0 -ctv q8_0

Source: https://github.com/ggml-org/llama.cpp/issues/29090 https://github.com/ggml-org/llama.cpp/issues/4185
https://github.com/unslothai/unsloth/pull/10301
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"failed to find free space in the KV cache|failed to find a memory slot for batch of size"
                r"|Context size has been exceeded"
            ),
            engines=("llamacpp", "ollama"),
        ),
    ),
)
