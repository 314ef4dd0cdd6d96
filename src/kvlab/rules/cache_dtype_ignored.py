"""The cache dtype was asked for and not used.

Symptom: Ollama: "quantized kv cache requested but flash attention disabled", "unsupported OLLAMA_KV_CACHE_TYPE", "kv
cache type not supported by model"; vLLM: "Unknown kv_cache_quant_algo ... Falling back to 'auto'".

Cause: the engine went on with a 16-bit cache, so the pool has half of the tokens that were planned, or the context
takes twice the memory.

Do:
- Ollama: OLLAMA_FLASH_ATTENTION=1 beside OLLAMA_KV_CACHE_TYPE (f16, q8_0 or q4_0)
- vLLM: state the dtype, --kv-cache-dtype fp8, where the checkpoint's own word is unknown
- plan with the 16-bit cache: kvlab check LOG --plan FILE shows the difference

Source: https://github.com/ollama/ollama/pull/6279
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"quantized kv cache requested but flash attention disabled|unsupported OLLAMA_KV_CACHE_TYPE"
                r"|kv cache type not supported by model|OLLAMA_FLASH_ATTENTION must be enabled to use a quantized"
            ),
            engines=("ollama",),
        ),
        Sign(pattern=re.compile(r"Unknown kv_cache_quant_algo .* Falling back to"), engines=("vllm",)),
    ),
)
