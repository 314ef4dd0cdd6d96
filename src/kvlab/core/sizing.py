"""Answers to the questions that a plan is asked backwards: which GPUs, how long a context, what buys what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from kvlab.core.model import Kind


def is_pattern(gpu: str | None) -> bool:
    """Whether what stands for a GPU is a pattern, or a list, of several."""
    return gpu is not None and any(letter in gpu for letter in "*?,")


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked beside the plan itself, and what GPUs cost."""

    only: str | None = None
    """Patterns with * and ?, separated by commas, that a GPU's name, alias or vendor must match."""
    prices: Mapping[str, float] = {}
    """US dollars an hour for one GPU, by a name that `kvlab gpus` lists."""
    limit: int = 10
    """Rows to keep; the rest are counted."""
    matrix: bool = False
    pareto: bool = False


class LongestContext(msgspec.Struct, frozen=True):
    """The longest request that the pool holds in one cache dtype; `low` and `high` follow the pool's range."""

    kv_dtype: str
    tokens: int
    low: int
    high: int
    kind: Kind
    native: bool
    """The model's own context ends it, not the pool."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs that serve the request. Concurrency is whole requests of `context` tokens, all replicas together."""

    gpu: str
    gpus: int
    tp: int
    pp: int
    dp: int
    dcp: int
    kv_dtype: str
    context: int
    concurrency: int
    low: int
    """Concurrency at the low end of the pool's range."""
    high: int
    kind: Kind
    verdict: Literal["holds", "may_hold"]
    """"holds": at both ends of the range; "may_hold": at its middle, not at its low end."""
    memory_bytes: int
    """Usable memory of all the GPUs."""
    usd_per_hour: float | None = None
    shared_memory: bool = False
    """Whether the memory is the system's too, so that less of it may be free."""

    def split(self) -> str:
        """How the GPUs share the work: "TP 4, DCP 4, 2 replicas"; "one GPU" when there is nothing to share."""
        sizes = (("TP", self.tp), ("PP", self.pp), ("DCP", self.dcp))
        parts = [f"{name} {size}" for name, size in sizes if size > 1]
        return ", ".join([*parts, *([f"{self.dp} replicas"] if self.dp > 1 else [])]) or "one GPU"


class NotRun(msgspec.Struct, frozen=True):
    """Kinds of GPU that were asked for and that the engine does not run on."""

    reason: str
    """What they have in common: "compute capability below 7.5", "Apple GPUs"."""
    gpus: tuple[str, ...]


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """What serves `users` requests of `context` tokens: first the rows that surely hold them, cheapest first.

    Rows without a price follow those that have one: fewest machines first, then fewest GPUs, then least memory; those
    that share the system's memory come last.
    """

    users: int
    context: int
    sorted_by: Literal["price", "memory", "gpus"]
    rows: tuple[Candidate, ...]
    left_out: int
    """Rows that serve it too and were cut off by the limit."""
    gpus_tried: int
    most_gpus: int
    """The largest number of GPUs that was tried."""
    not_run: tuple[NotRun, ...] = ()
    """Kinds that were asked for and not tried."""

    @property
    def best(self) -> Candidate:
        """The first row that surely holds the request, else the first. Raises IndexError when there is none."""
        return next((row for row in self.rows if row.verdict == "holds"), self.rows[0])


class MatrixLine(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of dtype x context x TP: requests at once on one replica, with the range that the pool leaves."""

    kv_dtype: str
    context: int
    tp: int
    concurrency: float | None
    """None: not known, or refused."""
    low: float | None = None
    high: float | None = None
    kind: Kind = "computed"
    refused: str | None = None
    """The engine's own refusal."""
