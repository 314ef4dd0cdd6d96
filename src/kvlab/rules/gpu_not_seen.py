"""No GPU is seen.

Symptom: "No CUDA GPUs are available", "Found no NVIDIA driver on your system", "no CUDA-capable device is detected",
"Failed to infer device type".

Cause: the container was started without its GPUs, CUDA_VISIBLE_DEVICES names none that is there, the driver is not
loaded, or the build is for another vendor.

Do:
- on the host and in the container: does nvidia-smi (rocm-smi) show the GPU?
- docker run --gpus all, in Kubernetes resources.limits nvidia.com/gpu: 1
- CUDA_VISIBLE_DEVICES: unset it, or name indices that exist
- after a driver upgrade: reboot, or reload the modules

Source: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"No CUDA GPUs are available|Found no NVIDIA driver on your system|no CUDA-capable device is detected"
                r"|Failed to infer device type|CUDA-capable device\(s\) is/are busy or unavailable"
                r"|could not select device driver \S* with capabilities: \[\[gpu\]\]"
            )
        ),
    ),
)
