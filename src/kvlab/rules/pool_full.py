"""The cache is full and requests wait for it.

Symptom: vLLM: "KV cache usage" at 95 % or more with requests waiting, line after line; SGLang: "token usage" at 0.95
or more with a queue.

Cause: the pool, not the cores, limits how many requests run. Every further client only waits longer.

Do:
- see what the clients need: long prompts of one kind share a prefix; long outputs can be bounded (max_tokens)
- give the cache more of the GPU, if a step has room to spare
- store the cache in fewer bytes: an fp8 cache holds twice the tokens, after a quality check
- more GPUs: tensor parallelism leaves more room for the pool, replicas take a part of the clients

Source: https://github.com/vllm-project/vllm/issues/2731
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign
from kvlab.rules._at_work import sglang, sglang_other, vllm, vllm_other

_LINES = 2


def _advise(case: Case, advice: Advice) -> Advice | None:
    if case.longest() < _LINES:
        return None
    running, waiting = case.last.number_of("running"), case.last.number_of("waiting")
    if running is None or waiting is None:
        return advice
    return advice.replaced(f"{running:.0f} run, {waiting:.0f} wait, and the pool is full: {advice.why}")


RULE = Rule(
    certainty="likely",
    cost="trade",
    signs=(
        Sign(pattern=re.compile(vllm(used=r"(?:9[5-9]|100)\.\d")), engines=("vllm",)),
        Sign(name="room", pattern=re.compile(vllm_other(used=r"(?:\d|[1-8]\d|9[0-4])\.\d")), engines=("vllm",)),
        Sign(pattern=re.compile(sglang(used=r"(?:0\.9[5-9]|1\.0\d)")), engines=("sglang",)),
        Sign(name="room", pattern=re.compile(sglang_other(used=r"0\.(?:[0-8]\d|9[0-4]),")), engines=("sglang",)),
    ),
    advise=_advise,
)
