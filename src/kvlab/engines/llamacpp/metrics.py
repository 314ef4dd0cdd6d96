"""llama-server's /metrics and /slots in kvlab's words.

There is no cache gauge since May 2025 (builds before it have `kv_cache_usage_ratio`): use is counted from the tokens
that the working slots hold. Whether slots share one pool cannot be read from a running server, so the ratio to the pool
is left to whoever knows the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from kvlab.core.engine import MetricMap
from kvlab.core.errors import BadInput
from kvlab.core.exposition import samples

_WORDS = {
    "llamacpp:requests_processing": "running",
    "llamacpp:requests_deferred": "waiting",
    "llamacpp:tokens_predicted_total": "generation_tokens_total",
    "llamacpp:prompt_tokens_cached_total": "prefix_hits_tokens_total",
    "llamacpp:kv_cache_usage_ratio": "kv_used_ratio",
}


_Tokens = Annotated[int, msgspec.Meta(le=1 << 40)]
_Cells = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]


class _Next(msgspec.Struct):
    n_decoded: _Tokens = 0


class _Slot(msgspec.Struct):
    """A row of /slots; token counts are absent until the slot has worked."""

    n_ctx: _Cells
    is_processing: bool
    n_prompt_tokens: _Tokens = 0
    next_token: list[_Next] = []


def _read(pages: Mapping[str, str]) -> dict[str, float]:
    found: dict[str, float] = {}
    if "/metrics" in pages:
        values = {sample.name: sample.value for sample in samples(pages["/metrics"])}
        found = {word: values[name] for name, word in _WORDS.items() if name in values}
        computed = values.get("llamacpp:prompt_tokens_total")
        if computed is not None:
            # the engine leaves cached tokens out of its prompt counter
            found["prompt_tokens_total"] = computed + found.get("prefix_hits_tokens_total", 0)
            if "prefix_hits_tokens_total" in found:
                found["prefix_queries_tokens_total"] = found["prompt_tokens_total"]
    if "/slots" in pages:
        found |= _slots(pages["/slots"])
    return found


def _slots(page: str) -> dict[str, float]:
    try:
        slots = msgspec.json.decode(page, type=list[_Slot])
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"/slots is not llama-server's list of slots: {error}") from None
    working = [slot for slot in slots if slot.is_processing]
    used = sum(slot.n_prompt_tokens + sum(token.n_decoded for token in slot.next_token) for slot in working)
    found = {"slots": float(len(slots)), "kv_used_tokens": float(used)}
    if len({slot.n_ctx for slot in slots}) == 1:
        found["n_ctx_slot"] = float(slots[0].n_ctx)
    if len(slots) == 1:
        found["kv_used_ratio"] = used / slots[0].n_ctx
    return found


METRICS = MetricMap(prefix="llamacpp:", read=_read, paths=("/metrics", "/slots"))
