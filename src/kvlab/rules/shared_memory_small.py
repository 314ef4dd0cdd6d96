"""The shared memory of the container is too small.

Symptom: "Error while creating shared memory segment /dev/shm/nccl-...", "posix_fallocate failed: No space left on
device", "unable to write to file </torch_...>", "Bus error (core dumped)" beside several ranks.

Cause: ranks exchange data through /dev/shm, and Docker gives a container 64 MiB of it.

Do:
- docker run --shm-size=16g, or --ipc=host
- in Kubernetes: an emptyDir with medium: Memory mounted at /dev/shm
- an offload buffer in shared memory counts too: it must hold all of it

Source: https://github.com/NVIDIA/nccl/issues/342 https://github.com/vllm-project/vllm/issues/1710
https://github.com/MiniMax-AI/MiniMax-01/issues/42
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"Error while creating shared memory segment|posix_fallocate failed ?: No space left on device"
                r"|unable to (?:write to|mmap|open) (?:file|shared memory object|\d+ bytes from file) ?</torch_"
                r"|No space left on device: '/dev/shm|Bus error \(core dumped\)"
                r"|DataLoader worker .* killed by signal: Bus error"
            )
        ),
    ),
)
