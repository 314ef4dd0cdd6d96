"""Running requests are thrown out of the cache again and again.

Symptom: vLLM V0: "Sequence group ... is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV
cache space"; SGLang: "KV cache pool is full. Retract requests". vLLM V1 prints no such line: there, look at
vllm:num_preemptions_total.

Cause: requests grow while they generate, and more were admitted than the pool holds at their full length. What is
thrown out is computed again.

Do:
- admit fewer at a time: vLLM --max-num-seqs, SGLang --max-running-requests
- SGLang, more than one a minute: raise --schedule-conservativeness to 1.3
- give the cache more of the GPU, if a step has room to spare
- store the cache in fewer bytes: an fp8 cache holds twice the tokens
- more GPUs

Source: https://github.com/vllm-project/vllm/pull/6102 https://github.com/GAIR-NLP/LIMO/issues/29
https://docs.sglang.ai/advanced_features/hyperparameter_tuning.html
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign

_SEVERAL = 3
"""One now and then is how a full pool works: SGLang's documents call one a minute fine."""


def _advise(case: Case, advice: Advice) -> Advice | None:
    # vLLM writes the first and then every fiftieth, with the sum in the line.
    total = max(case.last.number_of("total") or 0, case.count())
    if total < _SEVERAL:
        return None
    return advice.replaced(f"at least {total:,.0f} were thrown out: {advice.why}")


RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"is preempted by \S+ mode because there is not enough KV cache space"
                r"(?:.*?total_num_cumulative_preemption=(?P<total>\d{1,9}))?"
            ),
            engines=("vllm",),
        ),
        Sign(pattern=re.compile(r"KV cache pool is full\. Retract requests"), engines=("sglang",)),
        Sign(pattern=re.compile(r"Decode out of memory happened\. #retracted_reqs"), engines=("sglang",)),
    ),
    advise=_advise,
)
