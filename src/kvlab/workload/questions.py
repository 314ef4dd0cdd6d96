"""What to ask of a trace."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kvlab.core.plan import Plan

Tell = Callable[[str], None]
"""Is told what is being done now, in words."""

BLOCK = 16
"""Tokens of a block where neither the trace nor the reader of its answer says: vLLM's on GPUs."""


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask of a trace, beside what is always answered."""

    percentile: float = 99.0
    """Of the total lengths, for the context limit."""
    capacities: tuple[int | str, ...] = ()
    """Cache sizes that the curve must hold: blocks, or bytes as in "80GiB" where `bytes_per_token` is given.

    The first one is taken for the pool that serves this traffic.
    """
    policies: tuple[str, ...] = ()
    """Policies beside the LRU curve, at each of `capacities`: lru, fifo, lfu, belady."""
    tiers: tuple[str, ...] = ()
    """A chain of tiers, the GPU's first: "gpu:5000", "cpu:200GiB@50GB/s"."""
    inclusive: bool = False
    """Whether a lower tier also holds what those above it hold."""
    prefill_tokens_per_second: float | None = None
    """Of one request, to tell what a hit saves."""
    pools: tuple[int | str, ...] = ()
    """Pools to simulate, in blocks or bytes; needs `prefill_tokens_per_second` and `decode_step_ms`."""
    decode_step_ms: float | None = None
    """What a step of the engine takes beside its prefill."""
    engine: str | None = None
    """Whose scheduler is simulated, as `schedulers.known` names them; None: vLLM's."""
    max_num_seqs: int | None = None
    """Requests that run at a time, in the simulation; None: 128 for vLLM, 2,048 for SGLang."""
    max_num_batched_tokens: int | None = None
    """Tokens that a step computes at most, in the simulation; None: 2,048 for vLLM, 8,192 for SGLang."""
    replicas: int | None = None
    """Replicas with a cache of each of the first of `capacities`."""
    last_half: bool = False
    """Measure reuse on the second half of the requests, with a cache that the first half has warmed."""
    bytes_per_token: int | None = None
    """Cache bytes of a token on one GPU, to give capacities in bytes."""
    model_context: int | None = None
    """Tokens that the model, or the plan, allows a request: what the context limit frees is counted from there."""
    plan: Plan | None = None
    """The server's plan: its pool, its speed and its other cache dtypes, for the requests at once."""
    tokenizer: str | None = None
    """tokenizer.json, its folder, a GGUF file or a Hub model, for logs that hold text."""
    estimate_tokens: bool = False
    """Without a tokenizer, count four bytes of text as a token."""
    block_size: int | None = None
    """Tokens of a block; None: BLOCK for logs that hold text or token ids, the trace's own where it has blocks."""
    fix: str | None = None
    """A file for the log with its prefix breakers fixed."""
    context: int | None = None
    """The longest request that would be reserved for, in the paging table; None: the next power of two."""
    sample: str = "100%"
    """Share of the blocks that the reuse is estimated from, "1%" or "0.01"; "100%": all, and it is exact."""
    ray: str | None = None
    """Read the files on Ray: the address of a cluster, or "local" to start one here; None: in this process."""
