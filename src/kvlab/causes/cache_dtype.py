"""The cache is kept in another dtype.

Seen: a line that names the dtype, or tokens that are more or fewer by the ratio of two dtypes while the pool is what
the log states. A quantised cache that is asked for and not used shows so: the flag was accepted, the cache did not
double.
"""

from __future__ import annotations

from kvlab.core.cause import Case, Cause, Guess
from kvlab.core.check import Reason
from kvlab.core.follows import PER_TOKEN, pool_ratio, slack

_WIDE = ("bfloat16", "float16", "f16", "bf16", "auto")


def _text(case: Case, dtype: str) -> str:
    planned, said = case.plan.kv.dtype, case.observation.setting("kv_dtype")
    if planned not in _WIDE and dtype in _WIDE:
        if said is not None and said.value not in (None, "auto", *_WIDE):
            return f"{planned} was accepted but the cache did not double: the log's tokens are those of {dtype}"
        return (
            f"the log's tokens are those of a {dtype} cache, the plan's is {planned}: the flag was not given, or was"
            " accepted and the cache did not double"
        )
    return f"the log's tokens are those of a {dtype} cache, the plan's is {planned}"


def _guesses(case: Case) -> tuple[Guess, ...]:
    said = case.observation.setting("kv_dtype")
    # "auto" is what the checkpoint asks for; a word that a line states is a fact, and only a fallback overrules it.
    fixed = said is not None and said.value not in (None, "auto")
    found = [other.kv_dtype for other in case.plan.alternatives if other.kv_dtype != case.plan.kv.dtype]
    if fixed:
        found = [dtype for dtype in found if dtype in _WIDE]
    return tuple(Guess(changes={"kv_dtype": dtype}, text=_text(case, dtype)) for dtype in found)


def _test(case: Case) -> Reason | None:
    """By the plan's own alternatives, where it cannot be made again."""
    tokens, whole = case.row("kv_tokens"), pool_ratio(case.plan, case.observation)
    if tokens is None or whole is None or isinstance(tokens.seen, str) or not tokens.seen:
        return None
    for other in case.plan.alternatives:
        if other.kv_dtype == case.plan.kv.dtype or not other.tokens:
            continue
        if abs(tokens.seen / (other.tokens * whole) - 1) <= slack(case.plan, tokens):
            names = tuple(row.name for row in case.open if PER_TOKEN in case.shares.get(row.name, ()))
            return Reason(code="cache_dtype", text=_text(case, other.kv_dtype), certainty="exact", explains=names)
    return None


CAUSE = Cause(settings=("kv_dtype", "kv_dtype_k", "kv_dtype_v"), guesses=_guesses, test=_test)
