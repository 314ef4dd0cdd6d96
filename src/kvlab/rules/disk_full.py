"""The disk is full.

Symptom: "No space left on device" (and not of /dev/shm).

Cause: weights, their unpacked copies and kernel caches fill the disk of the cache folder, often the small root disk
of a container.

Do:
- free room: hf cache list shows what takes it, hf cache rm NAME and hf cache prune remove it (df -h shows the disk)
- Ollama: ollama list shows what takes the room, ollama rm NAME removes it
- move the cache to a larger disk: HF_HOME, OLLAMA_MODELS
- mount a volume into the container instead of writing to its root

Source: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign


def _advise(case: Case, advice: Advice) -> Advice:
    # Ollama keeps its models outside the Hub's cache.
    return Advice(advice.why, advice.do[1:]) if case.engine == "ollama" else advice


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
    advise=_advise,
)
