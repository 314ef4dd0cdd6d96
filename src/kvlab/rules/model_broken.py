"""The model file is damaged or incomplete.

Symptom: llama.cpp: "tensor '...' data is not within the file bounds", "invalid magic characters", "failed to read
header"; PyTorch engines: "Error while deserializing header: MetadataIncompleteBuffer", "invalid load key, 'v'".

Cause: the file ends early, is not what its name says, or is a Git LFS pointer: most often a download that was cut
short.

Do:
- compare the size and the sha256 with the model's page
- "invalid load key, 'v'" or a file of some hundred bytes: git lfs pull, or download with hf download
- delete the file and fetch it again; half-written shards stay in the Hub cache

Source: https://github.com/QwenLM/Qwen3-VL/issues/264
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"Error while deserializing header|MetadataIncompleteBuffer|HeaderTooLarge|invalid load key, 'v'"
            )
        ),
    ),
)
