"""The GPUs of this machine, their free memory, and the processes that hold the rest.

NVIDIA through NVML (the package nvidia-ml-py, extra "nvidia"); AMD through sysfs, fdinfo and the KFD driver.
A machine without GPUs, without drivers or without the right to look yields fewer facts, never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from kvlab.facts import gpus


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds GPU memory. `bytes` is None where the driver will not say (WDDM, MIG)."""

    pid: int
    name: str | None
    bytes: int | None


class LocalGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of this machine. Facts that the driver does not state are None.

    `total_bytes` is the driver's own figure: NVML counts what it keeps for itself, up to 0.5 GiB more than CUDA's total.
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


class Nvml(Protocol):
    """The calls of pynvml that are used; every one may raise NVMLError."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def nvmlSystemGetDriverVersion(self) -> str: ...  # noqa: N802
    def nvmlSystemGetCudaDriverVersion_v2(self) -> int: ...  # noqa: N802
    def nvmlSystemGetProcessName(self, pid: int) -> str: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: N802
    def nvmlDeviceGetName(self, handle: Any) -> str: ...  # noqa: N802
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...  # noqa: N802
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]: ...  # noqa: N802
    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Any) -> list[Any]: ...  # noqa: N802


def local_gpus() -> tuple[LocalGpu, ...]:
    """Every GPU that NVML or amdgpu shows; empty when there is none. Never raises."""
    nvml = load_nvml()
    nvidia = nvidia_gpus(nvml) if nvml is not None else ()
    return (*nvidia, *amd_gpus(Path("/"), first=len(nvidia)))


def load_nvml() -> Nvml | None:
    """pynvml, or None when the extra "nvidia" is not installed."""
    try:
        import pynvml
    except ImportError:
        return None
    return cast(Nvml, pynvml)


def nvidia_gpus(nvml: Nvml) -> tuple[LocalGpu, ...]:
    """The GPUs that NVML shows; empty without a driver."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        count = _said(nvml, nvml.nvmlDeviceGetCount) or 0
        return tuple(gpu for index in range(count) if (gpu := _nvidia_gpu(nvml, index)) is not None)
    finally:
        _said(nvml, nvml.nvmlShutdown)


def _nvidia_gpu(nvml: Nvml, index: int) -> LocalGpu | None:
    handle = _said(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    name = _said(nvml, lambda: nvml.nvmlDeviceGetName(handle)) if handle is not None else None
    if name is None:
        return None
    # NotSupported where the GPU shares the machine's memory (GB10, Jetson)
    memory = _said(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    total = int(memory.total) if memory is not None else None
    row = gpus.by_driver_name(name, total)
    cuda = _said(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
    return LocalGpu(
        index=index,
        vendor="nvidia",
        name=name,
        table_name=row.name if row else None,
        total_bytes=total,
        used_bytes=int(memory.used) if memory is not None else None,
        free_bytes=int(memory.free) if memory is not None else None,
        driver=_said(nvml, nvml.nvmlSystemGetDriverVersion),
        runtime=f"CUDA {cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        processes=_nvidia_processes(nvml, handle),
    )


def _nvidia_processes(nvml: Nvml, handle: Any) -> tuple[GpuProcess, ...]:
    """Compute and graphics processes; one that is both is listed with the larger figure."""
    held: dict[int, int | None] = {}
    for ask in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
        for process in _said(nvml, lambda ask=ask: ask(handle)) or []:
            seen, here = held.get(process.pid), process.usedGpuMemory
            held[process.pid] = max(seen, here) if seen is not None and here is not None else (seen or here)
    named = (
        GpuProcess(pid=pid, name=_said(nvml, lambda pid=pid: nvml.nvmlSystemGetProcessName(pid)), bytes=size)
        for pid, size in held.items()
    )
    return _largest_first(named)


def _said[T](nvml: Nvml, ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except nvml.NVMLError:
        return None
