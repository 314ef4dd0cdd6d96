"""The pool was given to the engine.

Seen: kv_cache_memory_bytes in vLLM's arguments, VLLM_CPU_KVCACHE_SPACE, or a line that says so. Then the budget decides
nothing.
"""

from __future__ import annotations

from kvlab.core.cause import Case, Cause, Guess
from kvlab.core.follows import stated_pool
from kvlab.core.units import GIB


def _guesses(case: Case) -> tuple[Guess, ...]:
    stated, off = stated_pool(case.observation), case.pool_off()
    if stated is None or off is None:
        return ()
    size = stated[0] / GIB
    if case.plan.ask.pool_gib is not None:
        text = f"the plan takes a pool of {case.plan.ask.pool_gib:g} GiB as given, the log has {size:.4g}"
    elif case.observation.given_pool is not None:
        text = f"the log's pool of {size:.4g} GiB was given to the engine"
    else:
        return ()
    return (Guess(changes={"pool_gib": size}, text=f"{text}: plan with --pool-gib {size:.4g}", stated=True),)


CAUSE = Cause(settings=("pool_gib",), guesses=_guesses)
