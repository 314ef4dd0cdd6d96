"""The cache is full: requests wait for it, or are thrown out of it.

Conditions:
- requests wait at a tenth of the looks or more, and at those looks at least 95 % of the pool is in use, or too little
  is free for one more request like those that run (from 85 % on: where the number of running requests is not what
  holds them back)
- or requests are preempted (retracted): twice or more in the window, and more than once a minute or one in ten that
  end
- or, with one look only (the verdict is tentative): at least 95 % is in use, and requests were preempted since the
  start
- each engine of a server is judged by itself: one full pool is enough
- llama-server states tokens in use and not whether slots share the cache or divide it: a pool is full, or is not, where
  both give the same answer, or the plan tells (--plan)

Cause: the pool decides how many requests run. No preemption is no proof of room: vLLM V1 holds requests back at
admission, and its counter moves only once a victim runs again. A good hit rate is none either: what preempted
requests compute again is not counted as a query. Use is that of live requests; idle prefixes count as free.

Do:
- admit fewer at once, just below what fits: vLLM --max-num-seqs, SGLang --max-running-requests or
  --schedule-conservativeness 1.3, TensorRT-LLM --max_batch_size, LMDeploy --max-batch-size. Why: every preempted
  request computes its cache again, which costs the others their steps. Expect: preemptions end; the time that they
  cost goes to tokens. Verify: preemptions_total stands still while generation_tokens_total rises at least as fast.
- store the cache in fewer bytes: vLLM --kv-cache-dtype fp8, TensorRT-LLM kv_cache_config.dtype fp8, SGLang
  --kv-cache-dtype fp8_e4m3, llama.cpp -ctk q8_0 -ctv q8_0, Ollama OLLAMA_KV_CACHE_TYPE=q8_0, LMDeploy --quant-policy
  8. Why: the same memory holds more tokens. Expect: about twice the tokens from 16 bits; with a plan the exact number
  (--plan). Verify: kv_used_ratio and waiting fall; kvlab ab MODEL --b kv-dtype=fp8 measures the throughput and gates
  the answers.
- give the cache more of the GPU: vLLM --gpu-memory-utilization, SGLang --mem-fraction-static, LMDeploy
  --cache-max-entry-count, TensorRT-LLM kv_cache_config.free_gpu_memory_fraction. Why: what the engine leaves
  free is no cache. Expect: a few per cent; with a plan the exact number (--plan). Verify: the pool in the start-up log
  (kvlab check LOG --plan plan.json), then kv_used_ratio.
- ask for less: bound the answers (max_tokens), set the context limit near the 99th percentile of real lengths. Why: a
  request holds its tokens as long as it runs. Expect: as many more requests as the mean length falls. Verify: kvlab
  traffic TRACE says which limit; waiting falls.
- more memory: tensor parallelism or a replica. Why: weights take a smaller part of each GPU, or the queue is shared.
  Expect: the plan of the larger deployment says how many run. Verify: kvlab plan MODEL --users N --context L; waiting
  falls to 0.

Source: https://github.com/vllm-project/vllm/issues/2731 https://github.com/vllm-project/vllm/issues/5176
https://docs.sglang.ai/advanced_features/hyperparameter_tuning.html
https://docs.vllm.ai/en/latest/configuration/optimization.html
"""

from __future__ import annotations

from kvlab.core.diagnosis import Case, Rule, Step, Way
from kvlab.diagnoses._gauges import brimming, full, has_preempted, preempts, waits
from kvlab.diagnoses._plan import gained


def _ways(case: Case) -> tuple[Way, ...]:
    queued = tuple((waits(case, pool), full(case, pool)) for pool in case.pools)
    if case.window is not None:
        return (*queued, (preempts(case),))
    return (*queued, *((has_preempted(case), brimming(case, pool)) for pool in case.pools))


def _tailor(case: Case, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    fewer, *others = gained(case, steps, 1, 2)
    # Where nothing is thrown out, a lower limit only moves the queue.
    return (fewer, *others) if preempts(case).holds else tuple(others)


RULE = Rule(precedence=2, ways=_ways, tailor=_tailor)
