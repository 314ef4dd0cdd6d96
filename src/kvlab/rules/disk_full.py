"""The disk is full.

Symptom: "No space left on device" (and not of /dev/shm).

Cause: weights, their unpacked copies and kernel caches fill the disk of the cache folder, often the small root disk
of a container.

Do:
- df -h of the cache folder; hf cache scan and ollama list show what takes the room
- move the cache to a larger disk: HF_HOME, OLLAMA_MODELS
- mount a volume into the container instead of writing to its root

Source: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"^(?!.*(?:/dev/shm|nccl|NCCL|shm\.h|torch_shm)).*No space left on device|no space left on device$"
            )
        ),
    ),
    yields_to=("shared_memory_small",),
)
