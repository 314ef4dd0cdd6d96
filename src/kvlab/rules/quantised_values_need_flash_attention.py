"""A quantised value cache needs flash attention.

Symptom: llama.cpp: "quantized V cache requires flash_attn to be enabled" or "V cache quantization requires
flash_attn"; since September 2026 "quantized V cache was requested, but this requires Flash Attention".

Cause: flash attention is off, by flag or because the model or the backend does not have it, and the other kernels
read values in 16 bits only. Quantised keys alone are fine.

Do:
- leave -fa at auto, or give -fa on (Ollama: OLLAMA_FLASH_ATTENTION=1)
- quantise the keys only: -ctk q8_0 -ctv f16
- when the log says that flash attention was forced off for this model: leave the cache at f16

Source: https://github.com/ggml-org/llama.cpp/issues/10378 https://github.com/ollama/ollama/issues/15043
https://github.com/ggml-org/llama.cpp/issues/28524
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(r"quantized V cache was requested, but this requires Flash Attention"),
            engines=("llamacpp", "ollama"),
        ),
    ),
)
