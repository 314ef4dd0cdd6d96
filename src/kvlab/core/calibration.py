"""What starts of an engine really took of a GPU beside the cache, beside what was estimated for them."""

from __future__ import annotations

from typing import Literal

import msgspec


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One start, as its log stated it; sizes in bytes on one GPU rank."""

    engine: str
    version: str
    gpu: str
    """kvlab's name of the GPU."""
    model: str
    tp: int = 1
    pp: int = 1
    dp: int = 1
    context: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    pool_bytes: int
    weights_bytes: int | None = None
    """None when the log does not state them."""
    overhead_bytes: int
    """What was neither weights nor cache."""
    estimated_overhead_bytes: int
    """What kvlab estimated for the same start, without any calibration."""
    machine: str
    """Operating system, processor and memory of the machine that learned it."""
    learned: str
    """UTC, ISO 8601."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """The file in which a user's starts are kept."""

    schema: Literal["kvlab/calibration@1"] = "kvlab/calibration@1"
    starts: tuple[Start, ...] = ()

    def of(self, engine: str, version: str, gpu: str) -> tuple[Start, ...]:
        """The starts of that engine, release and GPU; another GPU's say nothing about it."""
        wanted = (engine, version, gpu)
        return tuple(start for start in self.starts if (start.engine, start.version, start.gpu) == wanted)
