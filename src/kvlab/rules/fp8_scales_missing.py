"""The fp8 cache has no scales.

Symptom: "Using KV cache scaling factor 1.0 for fp8_e4m3", "Using uncalibrated q_scale 1.0"; SGLang: "Using FP8 KV
cache but no scaling factors provided. Defaulting to scaling factors of 1.0".

Cause: the checkpoint brings no scales for keys and values, or the model's loader drops them, so each value is rounded
to fp8 as it is. Large values are cut off. Most models hold; some lose much: long reasoning and small models first.

Do:
- measure before deciding: kvlab quality, with and without the fp8 cache
- use a checkpoint that has k_scale and v_scale, or calibrate one (llm-compressor's kv_cache_scheme)
- try --kv-cache-dtype fp8_e5m2, with a wider range and coarser steps, where the engine has it
- leave the cache at auto for this model

Source: https://github.com/vllm-project/vllm/issues/54623 https://github.com/vllm-project/vllm/pull/25968
https://github.com/sgl-project/sgl-cookbook/pull/237
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    certainty="possible",
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"Using KV cache scaling factor 1\.0 for fp8|Using uncalibrated q_scale|Using Q scale 1\.0 .* with fp8"
            ),
            engines=("vllm",),
        ),
        Sign(
            pattern=re.compile(
                r"Using FP8 KV cache but no scaling factors provided|Defaulting to scaling factors of 1\.0"
            ),
            engines=("sglang",),
        ),
    ),
)
