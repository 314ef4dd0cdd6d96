"""A kernel read or wrote where it must not, or the GPU failed.

Symptom: "CUDA error: an illegal memory access was encountered", "device-side assert triggered", "uncorrectable ECC
error", "NVRM: Xid", "GPU has fallen off the bus".

Cause: a bug in a kernel for these shapes, or (Xid 48, 63, 79, ECC) a fault of the hardware. The line that reports it
is often not the one that did it.

Do:
- dmesg | grep Xid: with 48, 63, 64, 74, 79 or 94 the GPU or its link is at fault; take it out of service
- otherwise exclude in turn: --enforce-eager (graphs), another attention backend, --kv-cache-dtype auto, no
  speculative decoding, no --enable-prefix-caching
- CUDA_LAUNCH_BLOCKING=1 names the kernel; report it with the engine's version
- upgrade the engine

Source: https://github.com/sgl-project/sglang/issues/1467 https://docs.nvidia.com/deploy/xid-errors/
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="machine",
    signs=(
        Sign(
            pattern=re.compile(
                r"an illegal memory access was encountered|device-side assert triggered|uncorrectable ECC error"
                r"|NVRM: Xid \(|fallen off the bus|CUDA error: misaligned address"
                r"|CUDA error: unspecified launch failure"
            )
        ),
    ),
)
