"""Ollama found no GPU that it can use.

Symptom: Ollama: "no compatible GPUs were discovered" or "no nvidia devices detected".

Cause: the machine has none, its driver is too old or not loaded, the container was started without it, or the GPU is
not supported. Everything runs on the CPU. On a machine without GPU this is as it should be.

Do:
- does nvidia-smi (rocminfo) show the GPU, on the host and in the container?
- docker run --gpus all; for AMD --device /dev/kfd --device /dev/dri and the rocm image
- OLLAMA_DEBUG=1 says which libraries it tried; after sleep and resume reload nvidia_uvm
- a newer driver, or a newer Ollama for a new GPU

Source: https://github.com/ollama/ollama/issues/10381 https://docs.ollama.com/gpu
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    certainty="possible",
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(r"no compatible GPUs were discovered|no nvidia devices detected"),
            engines=("ollama",),
        ),
    ),
)
