"""LMDeploy has no room for a request, or made its prefill smaller.

Symptom: "cache out of memory, no request can be admitted; failing head-of-line request", "run out of tokens", "No
enough memory. Update max_prefill_token_num=N".

Cause: the pool is smaller than one long request, or memory for a step was so short that LMDeploy cut the prefill in
pieces by itself.

Do:
- lower --session-len to the longest real request
- raise --cache-max-entry-count (a share of what is free after the weights)
- --quant-policy 8 (int8 cache) holds almost twice the tokens
- lower --max-prefill-token-num and --max-batch-size yourself, so that the size is known

Source: https://github.com/InternLM/lmdeploy/issues/2319 https://github.com/InternLM/lmdeploy/issues/3138
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"cache out of memory, no request can be admitted|lmdeploy - \w+ - .*run out of tokens"
                r"|No enough memory\. Update max_prefill_token_num"
            ),
            engines=("lmdeploy",),
        ),
    ),
)
