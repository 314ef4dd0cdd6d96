"""What starts of an engine really took of a GPU beside the cache, beside what was estimated for them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
"""Far above any GPU: a larger number was written by hand, or is damage."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One start, as its log stated it; sizes in bytes on one GPU rank."""

    engine: str
    version: str
    gpu: str
    """kvlab's name of the GPU."""
    model: str
    tp: Count = 1
    pp: Count = 1
    dp: Count = 1
    context: Count | None = None
    max_num_batched_tokens: Count | None = None
    max_num_seqs: Count | None = None
    pool_bytes: Bytes
    weights_bytes: Bytes | None = None
    """None when the log does not state them."""
    overhead_bytes: Annotated[int, msgspec.Meta(ge=-(1 << 30), le=1 << 50)]
    """What was neither weights nor cache; a rounded line of the log may leave it a little below 0."""
    estimated_overhead_bytes: Bytes
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
