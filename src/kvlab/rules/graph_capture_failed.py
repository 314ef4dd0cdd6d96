"""The capture of CUDA graphs failed.

Symptom: SGLang: "Capture cuda graph failed: ...", followed by its own list of possible solutions.

Cause: most often the graphs find too little memory beside weights and cache: then --mem-fraction-static must be
LOWERED. "Not enough memory. Please try to increase --mem-fraction-static" is the opposite case. When the text after
"failed:" names another error (a kernel, a header, a connection), memory is not the cause.

Do:
- when it says out of memory: lower --mem-fraction-static by 0.05
- capture smaller batches: --cuda-graph-max-bs 32
- do without graphs, at the price of decode speed: --disable-cuda-graph
- when it names another error: that error comes first; CUDA_LAUNCH_BLOCKING=1 shows where it arises

Source: https://github.com/sgl-project/sglang/issues/1751 https://github.com/sgl-project/sglang/issues/4489
https://github.com/sgl-project/sglang/issues/1467
"""

from __future__ import annotations

from kvlab.core.rule import Advice, Case, Rule


def _advise(case: Case, advice: Advice) -> Advice:
    line = case.first.line
    if "out of memory" in line:
        why = "the graphs found too little memory: weights and cache have taken --mem-fraction-static of the GPU"
        return advice.replaced(why, "lower --mem-fraction-static by 0.05 (raising it is for a pool too small)", drop=1)
    if "failed:" in line:
        why = f"not memory, it seems: {line.split('failed:', 1)[1].strip()[:120]}"
        return Advice(why, (advice.do[3], *advice.do[2:3], *advice.do[:1]))
    return advice


RULE = Rule(cost="setting", advise=_advise)
