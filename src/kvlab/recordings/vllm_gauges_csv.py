"""vLLM's metrics as columns, a row for each scrape, in its own names without the prefix."""

from __future__ import annotations

from kvlab.core.diagnosis import Look
from kvlab.recordings import Format
from kvlab.recordings._tables import Table, looks

_TABLE = Table(
    engine="vllm",
    words={
        "num_requests_running": ("running", 1),
        "num_requests_waiting": ("waiting", 1),
        "waiting_capacity": ("waiting_capacity", 1),
        "waiting_deferred": ("waiting_deferred", 1),
        "kv_cache_usage_perc": ("kv_used_ratio", 1),
        "num_preemptions_total": ("preemptions_total", 1),
        "prompt_tokens_total": ("prompt_tokens_total", 1),
        "generation_tokens_total": ("generation_tokens_total", 1),
        "prefix_cache_queries_total": ("prefix_queries_tokens_total", 1),
        "prefix_cache_hits_total": ("prefix_hits_tokens_total", 1),
    },
)


def _recognises(line: str) -> bool:
    return {"num_requests_running", "kv_cache_usage_perc"} <= set(line.split(","))


def _read(text: str, path: str, seconds: float | None) -> tuple[Look, ...]:
    return looks(_TABLE, text, path, seconds)


FORMAT = Format(title="CSV of vLLM's metrics", recognises=_recognises, read=_read)
