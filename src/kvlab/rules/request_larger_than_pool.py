"""A request waits that can never run.

Symptom: vLLM: lines with "Running: 0 reqs, Waiting: N reqs" and no throughput, one after the other, while the cache
is almost empty.

Cause: the head of the queue needs more blocks than the whole pool has: it is below --max-model-len but above the pool
(a hand-set block count, an offload connector, a window, speculative blocks). It is tried for ever and all behind it
wait.

Do:
- stop the request at the client: others go on
- lower --max-model-len to what the pool holds: the tokens in "KV cache size", so that such requests are refused
- take num_gpu_blocks_override out, or enlarge the pool
- upgrade: some of the causes have been removed since 0.22

Source: https://github.com/vllm-project/vllm/issues/39734 https://github.com/vllm-project/vllm/issues/45414
https://github.com/vllm-project/vllm/issues/35541
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign
from kvlab.rules._at_work import vllm

_LINES = 3
"""A line comes every ten seconds; for two of them a load or a drained queue may look the same."""


def _advise(case: Case, advice: Advice) -> Advice | None:
    if case.longest() < _LINES:
        return None
    waiting = case.last.number_of("waiting")
    return advice.replaced(
        f"{case.longest()} lines in a row with nothing running and {waiting or 0:.0f} waiting: {advice.why}"
    )


RULE = Rule(
    certainty="likely",
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(r"throughput: 0\.0 tokens/s, " + vllm(running="0", swapped="0")),
            engines=("vllm",),
        ),
        Sign(
            name="moves",
            pattern=re.compile(r"Running: [1-9]\d* reqs|Waiting: 0 reqs|Pending: 0 reqs"),
            engines=("vllm",),
        ),
    ),
    least=_LINES,
    advise=_advise,
)
