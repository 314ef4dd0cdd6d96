"""NVIDIA's GPUs through NVML (the package nvidia-ml-py, extra "nvidia")."""

# ruff: noqa: N802 (the protocol has pynvml's names)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from kvlab.detect.found import GpuProcess, LocalGpu, largest_first
from kvlab.facts import gpus

T = TypeVar("T")


class Nvml(Protocol):
    """The calls of pynvml that are used; every one may raise NVMLError."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> str: ...
    def nvmlSystemGetCudaDriverVersion_v2(self) -> int: ...
    def nvmlSystemGetProcessName(self, pid: int) -> str: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...
    def nvmlDeviceGetName(self, handle: Any) -> str: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]: ...
    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Any) -> list[Any]: ...


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
    handle = _said(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
    name = _said(nvml, nvml.nvmlDeviceGetName, handle) if handle is not None else None
    if name is None:
        return None
    # NotSupported where the GPU shares the machine's memory (GB10, Jetson)
    memory = _said(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
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
        for process in _said(nvml, ask, handle) or []:
            seen, here = held.get(process.pid), process.usedGpuMemory
            held[process.pid] = max(seen, here) if seen is not None and here is not None else (seen or here)
    named = (
        GpuProcess(pid=pid, name=_said(nvml, nvml.nvmlSystemGetProcessName, pid), bytes=size)
        for pid, size in held.items()
    )
    return largest_first(named)


def _said(nvml: Nvml, ask: Callable[..., T], *about: object) -> T | None:
    """What NVML answers, or None where it will not."""
    try:
        return ask(*about)
    except nvml.NVMLError:
        return None
