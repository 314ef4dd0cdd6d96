"""A whole prompt does not fit in one step.

Symptom: vLLM: "max_num_batched_tokens (N) is smaller than max_model_len (M)", "Input prompt (N tokens) is too long
and exceeds the capacity of block_manager".

Cause: without chunked prefill a prompt is computed in one step, so a step must hold the longest one.

Do:
- leave chunked prefill on (it is unless --no-enable-chunked-prefill is given; V0 had it off below 32k)
- --max-num-batched-tokens of at least --max-model-len, which takes memory from the cache
- lower --max-model-len

Source: https://github.com/vllm-project/vllm/issues/1189
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"max_num_batched_tokens \(\d+\) is smaller than max_model_len \(\d+\)"
                r"|is too long and exceeds the capacity of block_manager"
            ),
            engines=("vllm",),
        ),
    ),
)
