"""Tokens come slowly because each step reads the weights and the cache of many requests.

Conditions:
- nothing waits
- time per output token is above the objective (95th percentile, 50 ms)
- prompts are the smaller part of the work: fewer prompt tokens computed than tokens generated
- with a plan: the weights and the live cache of a step, moved in that time, are at least the share of the GPU's
  bandwidth that decoding is known to reach (60 % with 16-bit weights, 40 % with smaller ones)
- without a plan: 32 to 128 requests decode together, too few for any common accelerator to take longer to compute
  than to read (the verdict is tentative: the host could be slow instead)

Cause: decoding reads every weight once a step and each request's own cache; the more requests and the longer they
are, the more cache. A larger pool or a better hit rate changes nothing.

Do:
- store the cache in fewer bytes: vLLM --kv-cache-dtype fp8, TensorRT-LLM kv_cache_config.dtype fp8, SGLang
  --kv-cache-dtype fp8_e4m3, llama.cpp -ctk q8_0 -ctv q8_0, Ollama OLLAMA_KV_CACHE_TYPE=q8_0, LMDeploy --quant-policy
  8. Why: the live cache is read every step. Expect: its part of the step's bytes halves. Verify: itl_seconds falls at
  the same running; kvlab ab MODEL --b kv-dtype=fp8 measures it and gates the answers.
- store the weights in fewer bytes (a checkpoint of 8 or 4 bits). Why: they are read every step whatever runs. Expect:
  their part of the step's bytes halves or quarters. Verify: itl_seconds falls; kvlab quality gates the answers.
- let fewer decode together, or take a replica: vLLM --max-num-seqs, SGLang --max-running-requests, TensorRT-LLM
  --max_batch_size, LMDeploy --max-batch-size, llama.cpp -np, Ollama OLLAMA_NUM_PARALLEL. Why:
  each brings its cache to every step. Expect: sooner tokens for each and fewer in all. Verify: itl_seconds against
  generation_tokens_total a second; kvlab bench URL --concurrency N.
- take a GPU with more bandwidth, or tensor parallelism. Why: each rank reads its part. Expect: time per token falls
  with the bytes per rank. Verify: kvlab plan MODEL --gpu GPU --tp N states the speed; itl_seconds falls.

Source: https://doi.org/10.1145/1498765.1498785 https://github.com/pytorch-labs/gpt-fast
"""

from __future__ import annotations

from msgspec.structs import replace

from kvlab.core.diagnosis import Case, Condition, Evidence, Rule, Step, Way
from kvlab.diagnoses._gauges import unseen
from kvlab.diagnoses._plan import live_bytes, moved
from kvlab.diagnoses._pressure import no_queue
from kvlab.diagnoses._rates import mean_of, per_token, prompts_are_few

_FEW, _MANY = 32, 128
"""Requests that decode together. Accelerators compute 150 to 300 operations in the time that they read a byte, and a
16-bit weight is 2 operations for each request and 2 bytes: below 150 requests reading takes longer."""


def _many(case: Case, needed: str) -> Condition:
    """Whether the batch alone says that reading takes longer. `needed`: what would say more."""
    running = mean_of(case, "running")
    if running is None:
        return Condition(
            text="how many decode together", holds=None, missing=unseen(case, "running", "running requests")
        )
    each = running / len(case.pools)
    evidence = (Evidence("running", each, f"mean of {len(case.looks)} looks"),)
    text = f"{each:,.0f} decode together; below {_MANY} reading takes longer than computing, unless the host is slow"
    if _FEW <= each <= _MANY:
        return Condition(text=text, holds=True, evidence=evidence, missing=needed, sure=False)
    return Condition(text=f"{each:,.0f} decode together", holds=None, evidence=evidence, missing=needed)


def _ways(case: Case) -> tuple[Way, ...]:
    by_plan = moved(case)
    # evidence without an answer: the plan contradicts what was measured
    told = by_plan if by_plan.evidence else _many(case, by_plan.missing)
    return ((no_queue(case), per_token(case), prompts_are_few(case), told),)


def _tailor(case: Case, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    cache, weights, *others = steps
    plan = case.plan
    live = None if plan is None else live_bytes(case, plan)
    if plan is None or live is None or not plan.weights_bytes:
        return steps
    held = plan.weights_bytes * plan.stages
    part = live / (live + held)
    half = f"the cache is {part:.0%} of the bytes of a step: at half the bits it is {part / 2:.0%} less to read (plan)"
    rest = f"weights are {1 - part:.0%} of the bytes of a step: at half the bits {(1 - part) / 2:.0%} less (plan)"
    smaller = [other for other in plan.alternatives if (other.tokens or 0) > (plan.tokens or 0)]
    first = [replace(cache, expect=half)] if smaller else []
    second = [replace(weights, expect=rest)]
    return (*(first + second if part >= 0.5 else second + first), *others)


RULE = Rule(precedence=5, ways=_ways, tailor=_tailor)
