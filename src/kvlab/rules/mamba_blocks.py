"""Fewer state blocks than requests.

Symptom: vLLM: "max_num_seqs (N) exceeds available Mamba cache blocks (M)".

Cause: a hybrid model keeps one recurrent state for each running request, and the default --max-num-seqs is above what
the pool holds. Such states are large and do not depend on the context.

Do:
- give --max-num-seqs at most the number of blocks that the line states
- raise --gpu-memory-utilization, which helps little: a state takes tens of MiB
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
