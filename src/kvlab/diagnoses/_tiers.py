"""Tiers below the GPU's cache: whether the server has one, and what prompts find there."""

from __future__ import annotations

from kvlab.core.diagnosis import Case

_HITS = ("host_hits_tokens_total", "storage_hits_tokens_total", "peer_hits_tokens_total")
_SHOWS = (
    *("offload_size_bytes", "offload_tokens", "host_tier_used_ratio", "host_tier_used_bytes"),
    *("storage_tier_used_bytes", "offload_stored_bytes_total", "offload_loaded_bytes_total"),
    *("external_hits_tokens_total", *_HITS),
)
"""Above zero only where there is a tier: vLLM and TensorRT-LLM serve some of them, at zero, without one."""


def has_tier(case: Case) -> bool:
    """Whether the metrics show a tier. No does not say that there is none: an old release may not tell."""
    return any(case.last.values.get(word, 0) > 0 for word in _SHOWS)


def tier_hits(case: Case) -> float:
    """Prompt tokens of the window that were found in a tier, as far as the engine tells them apart."""
    window = case.window
    if window is None:
        return 0.0
    by_tier = sum(window.grown(word) or 0.0 for word in _HITS)
    return max(by_tier, window.grown("external_hits_tokens_total") or 0.0)
