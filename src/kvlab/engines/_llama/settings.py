"""The settings that llama-server's caches show: it states no command line, but what came of it."""

from __future__ import annotations

import re

import msgspec

from kvlab.core.observation import Observation, Said, Seen, Setting, Value
from kvlab.core.plan import Ask, Plan
from kvlab.core.stated import setting_of

TOLD = (
    # "llama_kv_cache_iswa: using full-size SWA cache (ref: ...)"
    Said("swa_full", "word", re.compile(r"using (full-size) SWA cache")),
    # "common_params_fit_impl: context size reduced from 131072 to 59136 -> need 9062 MiB less memory in total"
    Said("fitted_context", "tokens", re.compile(r"context size reduced from \d+ to (\d+)")),
)
_TYPES = ("kv_full", "kv_window", "kv_indexer", "kv_pool4", "kv_pool128")


def derived(observation: Observation) -> tuple[Setting, ...]:
    """Settings of a server from what its caches show."""
    found = [
        _setting("context", "n_ctx", observation.get("n_ctx")),
        _setting("parallel", "n_slots", observation.get("slots")),
        _setting("ubatch", "n_ubatch", observation.get("ubatch")),
        _setting("swa_full", "--swa-full", observation.hint("swa_full"), value=True),
    ]
    if (shared := observation.get("kv_unified")) is not None:
        found.append(_setting("kv_unified", "--kv-unified", shared, value=shared.value == "true"))
    for name, flag, part in (("kv_dtype_k", "--cache-type-k", "_k_type"), ("kv_dtype_v", "--cache-type-v", "_v_type")):
        kept = next((seen for kind in _TYPES if (seen := observation.get(kind + part)) is not None), None)
        found.append(_setting(name, flag, kept))
    return tuple(item for item in found if item is not None)


def _setting(name: str, flag: str, seen: Seen | None, value: Value = None) -> Setting | None:
    if seen is None:
        return None
    stated = value if value is not None else seen.value if isinstance(seen.value, str) else int(seen.value)
    return setting_of(seen, name, flag, stated)


def normal(plan: Plan) -> Ask:
    """The plan's request with the cells and slots that came of it, as a log states them."""
    planned = {row.name: row.value for row in plan.expects if not isinstance(row.value, str)}
    slots, n_ctx = planned.get("slots"), planned.get("n_ctx")
    if slots is None or n_ctx is None:
        return plan.ask
    ask = plan.ask
    both = ask.kv_dtype
    return msgspec.structs.replace(
        ask,
        users=None,
        pool_gib=None,
        context=int(n_ctx),
        parallel=int(slots),
        kv_unified=ask.kv_unified if ask.kv_unified is not None else not (ask.parallel or ask.users or ask.pool_gib),
        kv_dtype=None,
        kv_dtype_k=ask.kv_dtype_k or both or "f16",
        kv_dtype_v=ask.kv_dtype_v or both or "f16",
    )
