"""The attention heads do not divide over the GPUs.

Symptom: "Total number of attention heads (N) must be divisible by tensor parallel size (T)".

Cause: tensor parallelism gives each GPU the same number of heads.

Do:
- choose a tensor-parallel size that divides the number of heads: 1, 2, 4 or 8 for most models
- use the other GPUs by pipeline or data parallelism

Source: https://docs.vllm.ai/en/latest/serving/parallelism_scaling/
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule

_NUMBERS = re.compile(r"attention heads \((\d{1,6})\) must be divisible by tensor parallel size \((\d{1,6})\)")


def _advise(case: Case, advice: Advice) -> Advice:
    found = _NUMBERS.search(case.first.line)
    if found is None or int(found[1]) < 1:
        return advice
    heads, asked = int(found[1]), int(found[2])
    fits = [size for size in range(1, min(heads, asked) + 1) if heads % size == 0]
    sizes = ", ".join(str(size) for size in fits[-4:])
    return advice.replaced(f"{heads} heads do not divide by {asked}", f"a tensor-parallel size of {sizes}", drop=1)


RULE = Rule(cost="setting", advise=_advise)
