"""llama-server's /metrics and /slots in kvlab's words.

There is no cache gauge since May 2025 (builds before it have `kv_cache_usage_ratio`): use is counted from the tokens
that the working slots hold. Whether slots share one pool cannot be read from a running server, so the ratio to the pool
is left to whoever knows the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.metric_map import MetricMap
from kvlab.core.series import Series

_CACHED = "llamacpp:prompt_tokens_cached_total"
_SERIES = (
    Series("running", ("llamacpp:requests_processing",)),
    Series("waiting", ("llamacpp:requests_deferred",)),
    Series("kv_used_ratio", ("llamacpp:kv_cache_usage_ratio",)),
    Series("generation_tokens_total", ("llamacpp:tokens_predicted_total",)),
    # the engine leaves cached tokens out of its prompt counter
    Series("prefill_tokens_total", ("llamacpp:prompt_tokens_total",)),
    Series("prompt_tokens_total", ("llamacpp:prompt_tokens_total",), plus=(_CACHED,)),
    Series("prefix_queries_tokens_total", ("llamacpp:prompt_tokens_total",), plus=(_CACHED,)),
    Series("prefix_hits_tokens_total", (_CACHED,)),
    # of single requests, added up: several work at the same time
    Series("prefill_seconds_total", ("llamacpp:prompt_seconds_total",)),
    Series("decode_seconds_total", ("llamacpp:tokens_predicted_seconds_total",)),
    Series("drafted_tokens_total", ("llamacpp:spec_decode_num_draft_tokens_total",)),
    Series("accepted_tokens_total", ("llamacpp:spec_decode_num_accepted_tokens_total",)),
)
_Tokens = Annotated[int, msgspec.Meta(le=1 << 40)]
_Cells = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]


class _Next(msgspec.Struct):
    n_decoded: _Tokens = 0


class _Slot(msgspec.Struct):
    """A row of /slots; token counts are absent until the slot has worked."""

    n_ctx: _Cells
    is_processing: bool
    n_prompt_tokens: _Tokens = 0
    n_prompt_tokens_processed: _Tokens | None = None
    n_prompt_tokens_cache: _Tokens | None = None
    next_token: list[_Next] = []

    def used(self) -> int:
        """Tokens of the request that the slot works on.

        `n_prompt_tokens` is the whole prompt while it is read, and grows with the answer (b11434 and b11549 do so); a
        release in which it would stay is counted by its parts.
        """
        decoded = sum(token.n_decoded for token in self.next_token)
        processed, cached = self.n_prompt_tokens_processed, self.n_prompt_tokens_cache
        if processed is None or cached is None:
            return self.n_prompt_tokens + decoded
        return max(self.n_prompt_tokens, cached + processed + decoded)


def _more(pages: Mapping[str, str], values: Mapping[str, float]) -> dict[str, float]:
    return {**values, **(_slots(pages["/slots"]) if "/slots" in pages else {})}


def _slots(page: str) -> dict[str, float]:
    try:
        slots = msgspec.json.decode(page, type=list[_Slot])
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"/slots is not llama-server's list of slots: {error}") from None
    working = [slot for slot in slots if slot.is_processing]
    used = sum(slot.used() for slot in working)
    found = {"slots": float(len(slots)), "kv_used_tokens": float(used)}
    if len({slot.n_ctx for slot in slots}) == 1:
        found["n_ctx_slot"] = float(slots[0].n_ctx)
    if len(slots) == 1:
        found["kv_used_ratio"] = used / slots[0].n_ctx
    return found


METRICS = MetricMap(
    prefix="llamacpp:",
    paths=("/metrics", "/slots"),
    series=_SERIES,
    more=_more,
    versions={
        "llamacpp:kv_cache_usage_ratio": "to May 2025",
        _CACHED: "2026",
        "llamacpp:spec_decode_num_draft_tokens_total": "2026",
        "llamacpp:spec_decode_num_accepted_tokens_total": "2026",
    },
    told={
        "slots": "/slots, its rows",
        "n_ctx_slot": "/slots n_ctx",
        "kv_used_tokens": "/slots, the tokens of those at work",
        "kv_used_ratio": "/slots, where there is one",
    },
)
