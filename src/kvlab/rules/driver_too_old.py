"""The driver is older than the CUDA that the build was made with.

Symptom: "The NVIDIA driver on your system is too old (found version 12020)", "CUDA driver version is insufficient for
CUDA runtime version", "forward compatibility was attempted on non supported HW", "unsatisfied condition: cuda>=12.8";
Ollama: "NVIDIA driver too old".

Cause: PyTorch or the container carries a newer CUDA than the driver supports. The number found is the driver's CUDA:
12020 is 12.2.

Do:
- install a build for the driver's CUDA: the wheel index cu124, cu126, cu128 or an older image tag
- upgrade the driver on the host; the container cannot bring its own
- data-centre GPUs only: the cuda-compat package in the container

Source: https://github.com/modelscope/FunASR/issues/2973 https://docs.nvidia.com/deploy/cuda-compatibility/
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign


def _advise(case: Case, advice: Advice) -> Advice:
    driver, required = case.first.groups.get("driver"), case.first.groups.get("required")
    if driver and required:
        return advice.replaced(f"driver {driver} is there and {required} or newer is needed", advice.do[1], drop=2)
    found = case.first.number_of("found")
    if not found or found < 1000:
        return advice
    return advice.replaced(
        f"the driver supports CUDA {int(found) // 1000}.{int(found) % 1000 // 10}, the build is newer"
    )


RULE = Rule(
    cost="machine",
    signs=(
        Sign(
            pattern=re.compile(
                r"NVIDIA driver too old\b.*?driver=(?P<driver>\d+) required_driver=\W*(?P<required>\d+) or"
            ),
            engines=("ollama",),
        ),
        Sign(pattern=re.compile(r"NVIDIA driver on your system is too old \(found version (?P<found>\d{1,6})\)")),
        Sign(
            pattern=re.compile(
                r"CUDA driver version is insufficient for CUDA runtime version"
                r"|forward compatibility was attempted on non"
                r"|unsatisfied condition: cuda>=|The provided PTX was compiled with an unsupported toolchain"
            )
        ),
    ),
    advise=_advise,
)
