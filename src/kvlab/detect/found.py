"""A GPU of this machine, and who holds its memory."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds GPU memory. `bytes` is None where the driver will not say (WDDM, MIG)."""

    pid: int
    name: str | None
    bytes: int | None


class LocalGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of this machine. Facts that the driver does not state are None.

    `total_bytes` is the driver's own figure: NVML counts what it keeps for itself, up to 0.5 GiB more than CUDA.
    """

    index: int
    vendor: str
    name: str
    table_name: str | None
    """The row of the GPU table; None when no row of that name has about this much memory."""
    total_bytes: int | None
    used_bytes: int | None
    free_bytes: int | None
    driver: str | None
    runtime: str | None
    """The CUDA version that the driver supports ("CUDA 13.0"), or the installed ROCm ("ROCm 7.0.2")."""
    processes: tuple[GpuProcess, ...] = ()


def largest_first(processes: Iterable[GpuProcess]) -> tuple[GpuProcess, ...]:
    """Who holds most comes first."""
    return tuple(sorted(processes, key=lambda process: (-(process.bytes or 0), process.pid)))
