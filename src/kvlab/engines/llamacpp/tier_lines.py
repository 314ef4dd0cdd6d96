"""What llama-server says of its prompt cache, b7000 and later."""

from __future__ import annotations

import re

from kvlab.core.observation import Said
from kvlab.core.units import MIB

SAID = (
    # "srv    load_model: prompt cache is enabled, size limit: 8192 MiB"
    Said("offload_size_bytes", "bytes", re.compile(r"prompt cache is enabled, size limit: (\d{1,12}) MiB"), MIB),
    # "srv        update:  - cache state: 2 prompts, 32.122 MiB (limits: 64.000 MiB, 2048 tokens, 2048 est)"
    Said("offload_prompts", "prompts", re.compile(r" - cache state: (\d{1,12}) prompts, ")),
    Said("offload_used_bytes", "bytes", re.compile(r" - cache state: \d+ prompts, (\d{1,12}(?:\.\d+)?) MiB"), MIB),
)
