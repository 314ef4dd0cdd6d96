"""Fewer state blocks than requests.

Symptom: vLLM: "max_num_seqs (N) exceeds available Mamba cache blocks (M)"; SGLang: "Not enough GPU memory for hybrid
(mamba/linear-attention) state cache", "state cache is too small to serve".

Cause: a hybrid model keeps a recurrent state (SGLang: several) for each running request, and the pool holds fewer
than the requests that may run. Such states are large and do not depend on the context.

Do:
- admit fewer requests: vLLM --max-num-seqs, SGLang --max-running-requests
- SGLang: give states a larger part, --mamba-full-memory-ratio 2
- store them in 16 bits, after a quality check: vLLM --mamba-ssm-cache-dtype bfloat16, SGLang --mamba-ssm-dtype bfloat16
- raise the share, which helps little: vLLM --gpu-memory-utilization, SGLang --mem-fraction-static
- more GPUs, since each keeps a part of every state

Source: https://github.com/vllm-project/recipes/pull/831
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule

_NUMBERS = re.compile(r"max_num_seqs \((\d+)\) exceeds available Mamba cache blocks \((\d+)\)")


def _advise(case: Case, advice: Advice) -> Advice:
    found = _NUMBERS.search(case.first.line)
    if found is None:
        return advice
    asked, blocks = found.groups()
    why = f"{asked} requests at once need {asked} states and the pool holds {blocks}"
    return advice.replaced(why, f"--max-num-seqs {blocks} or less", drop=1)


RULE = Rule(cost="setting", advise=_advise)
