"""Prompts are computed from their first token, and first tokens come late.

Conditions:
- at least five prompt tokens are computed for each generated one
- fewer than 30 % of the prompts' tokens are found in the cache or in a tier below it (with a trace of the traffic:
  less than half of what could be)
- 95 of 100 requests, five at least, wait longer for their first token than the objective (2 s; llama-server, which
  does not time it: prompts take half of the time that slots work, and half of the window in all)
- the cache is not what requests wait for: no full pool with a queue, no preemptions

Cause: the start of the prompts is not found again: it differs (a date, an id or the user's text comes first), prefix
caching is off, other replicas hold it, or it was evicted before it came again. A low kv_used_ratio does not say that
it still lies there: it counts live requests only. Where prompts share nothing, nothing can be found: a trace tells.

Do:
- put what is the same in every prompt first, what changes last. Why: only an equal beginning is found, block by
  block. Expect: with a trace, kvlab traffic says which share of the tokens an endless cache would find. Verify:
  prefix_hits_tokens_total grows with prefix_queries_tokens_total; ttft_seconds falls; kvlab prefix URL measures cold
  against warm.
- see that prefix caching is on: vLLM --enable-prefix-caching, SGLang without --disable-radix-cache, LMDeploy
  --enable-prefix-caching, TensorRT-LLM kv_cache_config.enable_block_reuse, llama.cpp with cache_prompt, llama.cpp
  --swa-full where windows slide. Why: without it nothing is looked up. Expect:
  prefix_queries_tokens_total rises with the prompts. Verify: kvlab prefix URL sees a warm prompt come sooner.
- keep what was computed longer: a larger pool (fewer bytes a token), a host tier (vLLM
  --kv-offloading-size, SGLang --enable-hierarchical-cache, llama.cpp --cache-ram, TensorRT-LLM
  kv_cache_config.host_cache_size), one replica for each conversation. Why: what is evicted or lies
  elsewhere is computed again. Expect: the hit rate of that many tokens in kvlab traffic's curve. Verify: hits rise;
  kvlab ab MODEL --b kv-dtype=fp8.

Source: https://docs.vllm.ai/en/latest/design/prefix_caching.html https://github.com/vllm-project/vllm/issues/5176
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from kvlab.core.diagnosis import Case, Rule, Step, Way
from kvlab.diagnoses._plan import gained
from kvlab.diagnoses._pressure import no_pressure
from kvlab.diagnoses._rates import first_token, hit_rate, prompts_lead, reused
from kvlab.diagnoses._tiers import has_tier


def _ways(case: Case) -> tuple[Way, ...]:
    return ((prompts_lead(case), reused(case).denied(), first_token(case), no_pressure(case)),)


def _tailor(case: Case, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    order, on, keep = gained(case, steps, -1, -1)
    if has_tier(case):
        keep = replace(
            keep, do=re.sub(r"a host tier \([^)]*\)", "a larger tier below the GPU than the one it has", keep.do)
        )
    # Some hits prove that it is on.
    return (order, keep) if hit_rate(case) else (on, order, keep)


RULE = Rule(precedence=4, ways=_ways, tailor=_tailor)
