"""The offload tier does not fit in the machine's memory.

Symptom: SGLang HiCache: "Not enough host memory available. Requesting X GB but only have Y GB free"; vLLM and
LMCache: "Cannot allocate memory" while a CPU pool is made.

Cause: each rank makes a pool of its own: --hicache-size is per rank, --hicache-ratio is times the pool on the GPU,
and 10 GB are kept free. Huge pages that were set aside count as used.

Do:
- lower --hicache-size, or --hicache-ratio (2.0 if not given): ranks times the size must fit
- leave both out from 0.5.23 on: the size is then fitted
- free huge pages: sysctl vm.nr_hugepages=0
- raise the container's memory limit

Source: https://github.com/sgl-project/sglang/pull/8102 https://github.com/sgl-project/sglang/issues/34972
https://github.com/sgl-project/sglang/pull/40135
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule

_NUMBERS = re.compile(r"Requesting (?P<asked>[\d.]+) GB but only have (?P<free>[\d.]+) GB")


def _advise(case: Case, advice: Advice) -> Advice:
    found = _NUMBERS.search(case.first.line)
    if found is None:
        return advice
    return advice.replaced(f"a rank asks for {found['asked']} GB and {found['free']} GB are free: {advice.why}")


RULE = Rule(cost="setting", advise=_advise)
