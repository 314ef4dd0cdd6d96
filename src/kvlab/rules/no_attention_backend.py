"""No attention kernel takes this combination.

Symptom: vLLM: "No valid attention backend found for cuda with ... Reasons: {...}".

Cause: head size, cache dtype, block size, sinks or sparse attention and the GPU's generation together rule out every
kernel. The line lists what each lacks.

Do:
- when the reason is "kv_cache_dtype not supported": --kv-cache-dtype auto, or another fp8 name
- when it is a block size: leave --block-size out
- when it is "compute capability not supported": this GPU cannot run the model in this release; upgrade, or another
  GPU

Source: https://github.com/vllm-project/vllm/issues/48406 https://github.com/vllm-project/vllm/issues/31480
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule

_REASONS = (
    ("kv_cache_dtype not supported", "the cache dtype", "--kv-cache-dtype auto, or another fp8 name"),
    (
        "compute capability not supported",
        "the GPU's generation",
        "a release that has a kernel for this GPU, or a newer GPU",
    ),
    ("block_size not supported", "the block size", "leave --block-size out"),
    ("head_size not supported", "the head size", "another release; no setting changes the head size"),
)
_EACH = re.compile(r"[A-Z][A-Z0-9_]+: \[([^\]]*)\]")


def _advise(case: Case, advice: Advice) -> Advice:
    named = _EACH.findall(case.first.line)
    for reason, word, cure in _REASONS:
        if named and all(reason in each for each in named):
            return advice.replaced(f"every kernel that the line names refuses {word}", cure, drop=len(advice.do))
    return advice


RULE = Rule(cost="setting", advise=_advise)
