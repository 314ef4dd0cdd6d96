"""Requests wait although the cache has room.

Symptom: vLLM: the same number of requests runs in every line, others wait, and "KV cache usage" is far from full;
SGLang: a queue with "token usage" below 0.8.

Cause: a limit on the number of requests holds them back, not the memory: vLLM --max-num-seqs, SGLang
--max-running-requests or its conservative guess of how long answers get.

Do:
- vLLM: raise --max-num-seqs above the number that runs
- SGLang: raise --max-running-requests, or lower --schedule-conservativeness to 0.3
- watch the time per token: more at once makes each slower

Source: https://docs.sglang.ai/advanced_features/hyperparameter_tuning.html
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign
from kvlab.rules._at_work import sglang, sglang_other, vllm, vllm_other

_LINES = 5
_MANY = r"[1-9]\d+"
"""Ten or more: a few that run may be all that fit."""


def _advise(case: Case, advice: Advice) -> Advice | None:
    running, before = case.last.number_of("running"), case.first.number_of("running")
    if case.longest() < _LINES or not running or running != before:
        return None
    waiting = case.last.number_of("waiting") or 0
    return advice.replaced(f"{running:.0f} run in every line and up to {waiting:.0f} wait: {advice.why}")


RULE = Rule(
    certainty="likely",
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(vllm(running=_MANY, swapped="0", used=r"[1-7]?\d\.\d")),
            engines=("vllm",),
        ),
        Sign(name="other", pattern=re.compile(vllm_other(used=r"(?:[89]\d|100)\.\d")), engines=("vllm",)),
        Sign(pattern=re.compile(sglang(running=_MANY, used=r"0\.[0-7]\d")), engines=("sglang",)),
        Sign(name="other", pattern=re.compile(sglang_other(used=r"(?:0\.[89]|1\.)")), engines=("sglang",)),
    ),
    advise=_advise,
)
