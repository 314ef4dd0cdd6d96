"""Expected speed as a roofline: what a step must read and compute, over what a GPU reaches of its rates.

A decode step reads the weights that its batch visits and the cache of every request, and computes twice the active
parameters for every token; a prefill computes the same for every token of the prompt. Whichever takes longer bounds the
step (S. Williams, A. Waterman, D. Patterson: Roofline, https://doi.org/10.1145/1498765.1498785).
"""

from __future__ import annotations

import msgspec

from kvlab.core.speed import Pace, Prefill, Range, Turn

_MOST = 1 << 20
"""Largest batch that is looked at for the end of the bandwidth bound."""


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """The routed experts of layers that have the same."""

    layers: int
    count: int
    per_token: int
    parameters: int
    """Of one expert in one layer."""
    bytes: float

    def distinct(self, tokens: float) -> float:
        """Experts of a layer that a batch visits, if routing spreads tokens evenly: count x (1 - (1 - k/count)^n)."""
        missed: float = (1 - self.per_token / self.count) ** tokens
        return self.count * (1 - missed)


class Attends(msgspec.Struct, frozen=True, kw_only=True):
    """Layers whose attention costs the same: floating point operations for each pair of a query and a cached token."""

    layers: int
    prefill: float
    decode: float
    most: int | None = None
    """Cached tokens that one query looks at, at most: a window, or what an indexer picks."""

    def seen(self, tokens: int) -> float:
        """Cached tokens that the last query of `tokens` looks at."""
        return float(tokens if self.most is None else min(tokens, self.most))

    def pairs(self, tokens: int) -> float:
        """Pairs in a causal prefill of `tokens`."""
        window = min(tokens, self.most or tokens)
        return window * (window + 1) / 2 + (tokens - window) * window


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What one token costs, whatever the GPU. All ranks together."""

    dense_parameters: int
    """Parameters that every token passes: all but input embeddings, routed experts, towers and draft layers."""
    dense_bytes: float
    experts: tuple[Experts, ...] = ()
    attention: tuple[Attends, ...] = ()

    @property
    def active_parameters(self) -> int:
        """Parameters that one token passes."""
        return self.dense_parameters + sum(part.layers * part.per_token * part.parameters for part in self.experts)

    def step_bytes(self, tokens: float) -> float:
        """Bytes of the weights that a step of `tokens` reads."""
        return self.dense_bytes + sum(part.layers * part.distinct(tokens) * part.bytes for part in self.experts)

    def decode_flops(self, context: int) -> float:
        """Operations for one token after `context` others."""
        attention = sum(part.layers * part.decode * part.seen(context) for part in self.attention)
        return 2 * self.active_parameters + attention

    def prefill_flops(self, tokens: int) -> float:
        """Operations for a prompt of `tokens`, with nothing cached."""
        attention = sum(part.layers * part.prefill * part.pairs(tokens) for part in self.attention)
        return 2 * self.active_parameters * tokens + attention


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What the GPUs of one replica reach. Rates are of one GPU."""

    tp: int
    pp: int
    bandwidth: Range | None
    """Bytes a second that decoding reaches."""
    flops: Range | None
    """Operations a second that prefill reaches."""
    step_seconds: Range
    """What a step costs beside reading and computing: scheduling, sampling, launches."""


def pace(work: Work, machine: Machine, cache_bytes: float, context: int, batch: int, replicas: int = 1) -> Pace | None:
    """Decoding with `batch` requests; `cache_bytes` is what a step reads of one request's cache on one rank.

    With pipeline stages a token passes all of them, while they work on other parts of the batch. None without a known
    bandwidth.
    """
    if machine.bandwidth is None:
        return None
    low, high = (_step(work, machine, cache_bytes, context, batch, fast=fast) for fast in (False, True))
    slow, fast = max(low) + machine.step_seconds.high, max(high) + machine.step_seconds.low
    each = Range(1 / (machine.pp * slow), 1 / (machine.pp * fast))
    memory, compute = (low[at] + high[at] for at in (0, 1))
    return Pace(
        batch=batch,
        tokens_per_second_each=each,
        tokens_per_second=Range(each.low * batch * replicas, each.high * batch * replicas),
        limited_by="compute" if compute > memory else "bandwidth",
    )


def _step(
    work: Work, machine: Machine, cache_bytes: float, context: int, batch: float, *, fast: bool
) -> tuple[float, float]:
    """Seconds that one stage reads and computes for its part of a batch."""
    assert machine.bandwidth is not None
    end = "high" if fast else "low"
    part, ranks = max(1.0, batch / machine.pp), machine.tp * machine.pp
    read = work.step_bytes(part) / ranks + part * cache_bytes
    rate = getattr(machine.flops, end) if machine.flops is not None else None
    computed = part * work.decode_flops(context) / ranks / rate if rate else 0.0
    return read / getattr(machine.bandwidth, end), computed


def prefill(work: Work, machine: Machine, tokens: int) -> Prefill | None:
    """One prompt of `tokens`: the stages of a pipeline take it one after the other. None without a known rate."""
    if machine.flops is None:
        return None
    flops = work.prefill_flops(tokens) / machine.tp
    slow, fast = flops / machine.flops.low, flops / machine.flops.high
    if machine.bandwidth is not None:
        read = work.step_bytes(tokens) / machine.tp
        slow, fast = max(slow, read / machine.bandwidth.low), max(fast, read / machine.bandwidth.high)
    slow, fast = slow + machine.step_seconds.high, fast + machine.step_seconds.low
    return Prefill(tokens=tokens, ttft=Range(fast, slow), tokens_per_second=Range(tokens / slow, tokens / fast))


def compute_bound_from(work: Work, machine: Machine, cache_bytes: float, context: int) -> Turn | None:
    """Batches of one replica at which computing starts to take longer than reading: the earliest and the latest.

    None when the cache of each request alone takes longer to read than its token to compute.
    """
    if machine.bandwidth is None or machine.flops is None:
        return None
    ends = []
    for bandwidth, flops in ((machine.bandwidth.high, machine.flops.low), (machine.bandwidth.low, machine.flops.high)):
        fixed = msgspec.structs.replace(machine, bandwidth=Range(bandwidth, bandwidth), flops=Range(flops, flops))
        ends.append(_first(work, fixed, cache_bytes, context))
    earliest, latest = ends
    return None if earliest is None else Turn(earliest, latest)


def _first(work: Work, machine: Machine, cache_bytes: float, context: int) -> int | None:
    def computes(batch: int) -> bool:
        read, computed = _step(work, machine, cache_bytes, context, batch, fast=True)
        return computed >= read

    if not computes(_MOST):
        return None
    low, high = 1, _MOST
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if computes(middle) else (middle + 1, high)
    return low
