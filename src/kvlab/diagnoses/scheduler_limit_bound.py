"""Requests wait although the cache has room: a limit on their number holds them back.

Conditions:
- requests wait at a tenth of the looks or more
- as many run as may, at half of the looks with a queue: the limit that the engine or the plan states (llama-server's
  slots), or, over three looks or more, a number that is reached and never exceeded
- less than 85 % of the pool is in use, and two more requests like those that run would fit (llama-server defers a
  request only when no slot is free, whatever the cache holds)

Cause: the sequence limit, not the memory: vLLM --max-num-seqs, SGLang --max-running-requests or its guess of how long
answers get, llama-server -np, Ollama OLLAMA_NUM_PARALLEL.

Do:
- let more run: vLLM --max-num-seqs, SGLang --max-running-requests, llama.cpp -np (with -c in proportion: slots divide
  the context), Ollama OLLAMA_NUM_PARALLEL, TensorRT-LLM --max_batch_size, LMDeploy --max-batch-size. Why: a step
  reads the weights once for all that run. Expect: throughput rises and the queue falls until the pool is full or
  tokens come too slowly. Verify: running rises above the old limit, waiting falls, itl_seconds stays within its
  objective; kvlab ab MODEL --b max-num-seqs=N measures it.
- with a queue and less than 90 % in use, lower SGLang --schedule-conservativeness to 0.3. Why: it reserves room for
  answers as long as max_tokens allows. Expect: token usage rises to 90 % and more; about one retraction a minute is
  harmless. Verify: kv_used_ratio rises, waiting falls, preemptions_total stays below one a minute.
- take a replica where tokens already come slowly. Why: more at once makes each slower. Expect: half the queue each.
  Verify: waiting of each replica; kvlab bench URL --rate N.

Source: https://docs.sglang.ai/advanced_features/hyperparameter_tuning.html
https://docs.vllm.ai/en/latest/configuration/optimization.html
https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
"""

from __future__ import annotations

from kvlab.core.diagnosis import Case, Pool, Rule, Step, Way
from kvlab.diagnoses._gauges import limited, room, used, waits

_CONSERVATIVE = 1
_SGLANG_FULL = 0.9


def _ways(case: Case) -> tuple[Way, ...]:
    return tuple(_way(case, pool) for pool in case.pools)


def _way(case: Case, pool: Pool) -> Way:
    queue, held = waits(case, pool), limited(case, pool)
    # Slots are filled whatever the cache holds, so a queue before full slots is theirs.
    return (queue, held) if pool.seen("slots") else (queue, held, room(case, pool))


def _tailor(case: Case, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    shares = [share for pool in case.pools if (share := used(pool)) is not None]
    roomy = bool(shares) and max(shares) < _SGLANG_FULL
    return tuple(step for at, step in enumerate(steps) if at != _CONSERVATIVE or roomy)


RULE = Rule(precedence=3, ways=_ways, tailor=_tailor)
