"""kvlab's words for what engines measure: one for each quantity, whatever an engine calls it."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, Mapping[str, str]] = {
    "Gauges": {
        "running": "requests in the batch",
        "waiting": "requests that are queued",
        "waiting_capacity": "queued requests that wait for cache",
        "waiting_deferred": "queued requests that wait for something else (a transfer, a grammar)",
        "kv_used_ratio": "share of the cache that requests hold, the fullest pool's",
        "kv_used_tokens": "tokens that requests hold, all pools",
        "kv_free_tokens": "tokens that nobody holds",
        "kv_evictable_tokens": "tokens that only the prefix cache holds",
        "host_tier_used_ratio": "used share of the tier in host memory, as the engine counts it, the fullest pool's",
        "host_tier_used_tokens": "tokens in the tier in host memory, all pools",
        "host_tier_used_bytes": "bytes of the tier in host memory, all ranks",
        "storage_tier_used_bytes": "bytes of the tier on a disk, all ranks",
        "started_at": "when the process began, in seconds since 1970",
    },
    "Capacity": {
        "kv_tokens": "tokens that the cache holds",
        "max_concurrency": "requests of the full context that fit",
        "num_gpu_blocks": "blocks of the cache",
        "kv_usable_blocks": "blocks that requests can hold: vLLM keeps one of `num_gpu_blocks` empty",
        "block_size": "tokens of a block",
        "max_running_requests": "requests that the scheduler runs together",
        "slots": "requests that the server works on together",
        "n_ctx_slot": "tokens that one request may hold",
        "offload_tokens": "tokens that the tier in host memory holds, of one rank",
        "offload_size_bytes": "bytes of the tier in host memory, all ranks of one engine",
        "loaded_bytes": "the loaded model and its cache",
        "loaded_gpu_bytes": "the part of `loaded_bytes` that is on GPUs",
    },
    "Counters": {
        "preemptions_total": "running requests sent back to the queue",
        "requests_total": "requests that ended",
        "prompt_tokens_total": "prompt tokens, cached ones too",
        "prefill_tokens_total": "prompt tokens that were computed",
        "generation_tokens_total": "generated tokens",
        "prefix_queries_tokens_total": "prompt tokens looked up in the prefix cache",
        "prefix_hits_tokens_total": "prompt tokens found in the prefix cache",
        "external_queries_tokens_total": "prompt tokens looked up beyond the GPU",
        "external_hits_tokens_total": "those found beyond the GPU, where `prefix_hits_tokens_total` leaves them out",
        "host_hits_tokens_total": "prompt tokens found in host memory",
        "storage_hits_tokens_total": "prompt tokens found on a disk or in a store",
        "peer_hits_tokens_total": "prompt tokens found in another instance's cache",
        "offload_loaded_bytes_total": "cache brought back to the GPU, in bytes",
        "offload_stored_bytes_total": "cache moved off the GPU, in bytes",
        "offload_loading_seconds_total": "time that moving cache back to the GPU took, transfers added up",
        "offload_storing_seconds_total": "time that moving cache off the GPU took, transfers added up",
        "offload_refused_total": "stores for which the tier had no room",
        "drafted_tokens_total": "tokens that a draft proposed",
        "accepted_tokens_total": "drafted tokens that the model took",
        "prefill_seconds_total": "time spent on prompts",
        "decode_seconds_total": "time spent on generated tokens",
    },
    "Histograms": {
        "ttft_seconds": "time until a request's first token",
        "itl_seconds": "time between two tokens",
        "tpot_seconds": "time per output token, a request's mean",
        "queue_seconds": "time of a request in the queue",
        "prefill_seconds": "time spent on a request's prompt",
        "decode_seconds": "time from a request's first token to its last",
        "e2e_seconds": "time until a request's answer is whole",
        "request_prompt_tokens": "prompt tokens of a request",
        "request_generation_tokens": "generated tokens of a request",
        "iteration_tokens": "tokens of one step",
    },
}
"""Kind -> word -> what it is. Seconds, tokens, bytes and shares of 1.

Gauges and counters are the whole server's. Where pools are several, `kv_used_ratio` is that of the fullest and capacity
that of the smallest, so a share is multiplied only by what its own pool holds (`Reading.pools`). Counters and
histograms run from the engine's start.
"""
