"""Kernels are being compiled: the first start is slow, not stuck.

Symptom: vLLM: "No available shared memory broadcast block found in 60 seconds"; SGLang: "Entering DeepGEMM JIT"; and
no line after it that says that the server is ready.

Cause: kernels of DeepGEMM, FlashInfer, Triton and torch.compile are built for this GPU and these shapes. It takes
minutes at the first start and is kept in a folder of the user's cache. The same line for a quarter of an hour means
that a rank hangs.

Do:
- wait ten minutes; a busy nvcc, ptxas, cicc or ninja in top says that it works
- keep the caches over restarts and containers: VLLM_CACHE_ROOT, TRITON_CACHE_DIR, ~/.cache/flashinfer,
  ~/.cache/deep_gemm
- compile before serving: python -m sglang.compile_deep_gemm
- when nothing compiles: look for the rank that is behind (py-spy dump), and test with --enforce-eager

Source: https://github.com/gpustack/gpustack/issues/3888 https://github.com/vllm-project/vllm/issues/46611
https://github.com/vllm-project/vllm-ascend/issues/3717
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign

_MINUTES_OF_COMPILING = 10


def _advise(case: Case, advice: Advice) -> Advice | None:
    if case.ended == "serving" and case.first.stage != "serving":
        return None  # it got there
    minutes = case.count()  # a line a minute from each process that waits
    if case.longest() > _MINUTES_OF_COMPILING and case.first.groups.get("minute"):
        return advice.replaced(
            f"{minutes} such lines, one a minute: more than kernels take, so one rank hangs and the others wait",
            "find the rank that is behind: py-spy dump --pid of each worker",
            "start with --enforce-eager to see whether graphs or kernels are the cause",
            drop=3,
        )
    return advice


RULE = Rule(
    certainty="likely",
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(r"No available (?P<minute>shared memory broadcast block) found"),
            engines=("vllm",),
        ),
        Sign(pattern=re.compile(r"Entering DeepGEMM JIT (?:Pre-Compile|Single Kernel)"), engines=("sglang",)),
    ),
    advise=_advise,
)
