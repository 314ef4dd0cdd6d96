"""The GPU's arithmetic is the limit: prompts that are really new, or a batch past the end of the bandwidth bound.

Conditions:
- prompts: at least five prompt tokens are computed for each generated one, at least 30 % of the prompts' tokens are
  found in the cache (with a trace: at least half of what could be), first tokens come later than the objective, and
  the cache is not what requests wait for; with a plan, at half of the prompt tokens a second that it expects or more
  (without: the verdict is tentative)
- or decoding (needs the plan): time per output token is above its objective, prompts are the smaller part of the
  work, and more requests decode together than from where computing takes longer than reading

Cause: what is left to compute is new text, or more tokens a step than the GPU multiplies in the time that it reads
the weights. More cache would only admit more of them.

Do:
- let prompts take smaller parts of each step: vLLM --max-num-batched-tokens, SGLang --chunked-prefill-size,
  TensorRT-LLM --max_num_tokens, LMDeploy --max-prefill-token-num, llama.cpp -ub. Why: long prompts hold up the
  tokens of those that decode. Expect: steadier tokens and later first tokens; in all no more tokens. Verify:
  itl_seconds falls and ttft_seconds rises; kvlab bench URL at the same rate.
- take weights of a format that the GPU multiplies faster (fp8 where it does). Why: the same tokens take less time.
  Expect: prefill up to twice as fast. Verify: prefill_tokens_total a second at the same load; kvlab quality gates the
  answers.
- take replicas, or split prefill from decoding. Why: the arithmetic is used up. Expect: the queue is shared. Verify:
  ttft_seconds of each replica; kvlab bench URL --rate N.

Source: https://doi.org/10.1145/1498765.1498785 https://docs.vllm.ai/en/latest/configuration/optimization.html
"""

from __future__ import annotations

from msgspec.structs import replace

from kvlab.core.diagnosis import Case, Rule, Step, Way
from kvlab.diagnoses._plan import past_the_turn, prefills
from kvlab.diagnoses._pressure import no_pressure
from kvlab.diagnoses._rates import first_token, per_token, prompts, prompts_are_few, prompts_lead, reused


def _ways(case: Case) -> tuple[Way, ...]:
    reads = (prompts_lead(case), reused(case), first_token(case), no_pressure(case), prefills(case))
    return (reads, (per_token(case), prompts_are_few(case), past_the_turn(case)))


def _tailor(case: Case, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    rates, plan = prompts(case), case.plan
    chunk, weights, replicas = steps
    if rates is None or plan is None or plan.prefill is None:
        return (replicas, weights, chunk)
    low, high = (end * plan.replicas for end in (plan.prefill.low, plan.prefill.high))
    text = f"{rates[0]:,.0f} prompt tokens a second of {low:,.0f} to {high:,.0f} that the plan expects of the GPUs"
    return (replace(replicas, why=text), weights, chunk)


RULE = Rule(precedence=6, ways=_ways, tailor=_tailor)
