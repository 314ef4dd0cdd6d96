"""The build has no kernels for this GPU.

Symptom: "no kernel image is available for execution on the device", "with CUDA capability sm_120 is not compatible
with the current PyTorch installation", "Minimum capability: 80. Current capability: 75", "Bfloat16 is only supported
on GPUs with compute capability of at least 8.0".

Cause: kernels are compiled for a list of GPU generations. This one is newer than the build (sm_100, sm_120), or older
than the kernels or the number format need.

Do:
- for "Bfloat16 is only supported": --dtype half, which an older GPU computes
- for "not compatible with the current PyTorch" or "no kernel image is available": a build for this GPU's CUDA (12.8 or
  later for sm_100 and sm_120), or the engine's own container image
- for "Minimum capability": weights in another format (AWQ or GPTQ instead of FP8 or Marlin)
- for "not compatible with the current PyTorch" or "no kernel image is available": build from source with
  TORCH_CUDA_ARCH_LIST set to the GPU's capability

Source: https://github.com/pytorch/pytorch/issues/167244 https://github.com/gpustack/gpustack/issues/2097
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="machine",
    signs=(
        Sign(
            pattern=re.compile(
                r"no kernel image is available for execution on the device"
                r"|with CUDA capability sm_\d+ is not compatible with the current PyTorch installation"
                r"|is not supported for the current GPU\. Minimum capability"
                r"|Bfloat16 is only supported on GPUs with compute capability"
            )
        ),
    ),
)
