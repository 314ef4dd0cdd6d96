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
        Sign(
            pattern=re.compile(
                r"Running: (?P<running>\d+) reqs, (?:Swapped: \d+ reqs, )?(?:Waiting|Pending):"
                r" (?P<waiting>[1-9]\d*) reqs,"
                r"(?:(?!KV cache usage).)*KV cache usage: (?:9[5-9]|100)\.\d%"  # the GPU's: V0 states the CPU's too
            ),
            engines=("vllm",),
        ),
        Sign(
            name="room",
            pattern=re.compile(
                r"(?:Waiting|Pending): 0 reqs|^(?:(?!KV cache usage).)*KV cache usage: (?:\d|[1-8]\d|9[0-4])\.\d%"
            ),
            engines=("vllm",),
        ),
        Sign(
            pattern=re.compile(
                r"Decode batch[.,] #running-req: (?P<running>\d+),.*? token usage: (?:0\.9[5-9]|1\.0\d),"
                r".*?#queue-req: (?P<waiting>[1-9]\d*)"
            ),
            engines=("sglang",),
        ),
        Sign(
            name="room",
            pattern=re.compile(r"Decode batch.*? token usage: 0\.(?:[0-8]\d|9[0-4]),|Decode batch.*?#queue-req: 0\b"),
            engines=("sglang",),
        ),
    ),
    advise=_advise,
)
