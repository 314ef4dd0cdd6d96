"""The pool was given to the engine.

Seen: kv_cache_memory_bytes in vLLM's arguments, VLLM_CPU_KVCACHE_SPACE, or a line that says so. Then the budget decides
nothing.
"""

from __future__ import annotations

from kvlab.core.cause import Case, Cause, Guess
from kvlab.core.check import Reason
from kvlab.core.follows import stated_pool
from kvlab.core.units import GIB


def _text(case: Case) -> tuple[float, str] | None:
    """GiB that the log says were given, and the text."""
    stated, off = stated_pool(case.observation), case.pool_off()
    if stated is None or off is None:
        return None
    size = stated[0] / GIB
    if case.plan.ask.pool_gib is not None:
        text = f"the plan takes a pool of {case.plan.ask.pool_gib:g} GiB as given, the log has {size:.4g}"
    elif case.observation.given_pool is not None:
        text = f"the log's pool of {size:.4g} GiB was given to the engine"
    else:
        return None
    return size, f"{text}: plan with --pool-gib {size:.4g}"


def _guesses(case: Case) -> tuple[Guess, ...]:
    found = _text(case)
    return () if found is None else (Guess(changes={"pool_gib": found[0]}, text=found[1], stated=True),)


def _test(case: Case) -> Reason | None:
    found, given = _text(case), case.observation.given_pool
    if found is None or given is None:
        return None
    return Reason(code="pool_given", text=found[1], certainty="stated", explains=case.after("pool"))


CAUSE = Cause(settings=("pool_gib",), test=_test, guesses=_guesses)
