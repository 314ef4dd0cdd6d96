"""Two packages were built against each other's other version.

Symptom: "undefined symbol: _ZN...", "libcudart.so.12: cannot open shared object file", "GLIBC_2.34' not found",
"operator torchvision::nms does not exist".

Cause: PyTorch was upgraded or replaced after the engine (or flash-attn, FlashInfer, torchvision) was built for
another one, or the system is older than the wheel.

Do:
- a fresh virtual environment with nothing but the engine: uv pip install vllm
- do not install torch by itself afterwards; remove torchvision, torchaudio or flash-attn if unused
- the engine's own container image

Source: https://github.com/vllm-project/vllm/issues/13608
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"undefined symbol: _Z|ImportError: lib\S+\.so[.\d]*: cannot open shared object file"
                r"|GLIBC(?:XX)?_[\d.]+' not found|operator torchvision::nms does not exist"
            )
        ),
    ),
)
