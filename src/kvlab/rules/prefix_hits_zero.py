"""No prefix is found again on a hybrid model.

Symptom: vLLM: "Setting attention block size to N tokens ..." at the start, and later "Prefix cache hit rate: 0.0%" in
every line with requests.

Cause: only whole blocks are found again, and on a hybrid model a block has as many tokens as a recurrent state takes
bytes: 528 to 8,320. A shared prefix shorter than that can never hit, and a context below one block makes the cache
useless.

Do:
- compare the shared prefix with the block: below it, no hit is possible
- put what does not change first in the prompt, what varies last
- --mamba-cache-mode align, where the release has it, and --max-num-batched-tokens of at least a block
- turn --no-enable-prefix-caching on: it costs state blocks and gives nothing here

Source: https://github.com/vllm-project/vllm/issues/40696 https://github.com/vllm-project/vllm/issues/53749
https://github.com/vllm-project/vllm/issues/48401
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign

_LINES = 3


def _advise(case: Case, advice: Advice) -> Advice | None:
    block = case.tallies["block"].last.number_of("block") if "block" in case.tallies else None
    if not block or case.count("hits") or case.count() < _LINES:
        return None
    why = f"a block has {block:,.0f} tokens, and a shared prefix below that can never be found again"
    return advice.replaced(why, f"compare the shared prefix with {block:,.0f} tokens", drop=1)


RULE = Rule(
    certainty="likely",
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(r"Running: [1-9]\d* reqs.*Prefix cache hit rate: 0\.0%"),
            engines=("vllm",),
        ),
        Sign(name="hits", pattern=re.compile(r"Prefix cache hit rate: (?:[1-9]\d*\.\d|0\.[1-9])%"), engines=("vllm",)),
        Sign(
            name="block",
            pattern=re.compile(r"Setting attention block size to (?P<block>\d+) tokens to ensure that attention page"),
            engines=("vllm",),
        ),
    ),
    advise=_advise,
)
