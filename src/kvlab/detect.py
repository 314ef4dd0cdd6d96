"""The GPUs of this machine, their free memory, and the processes that hold the rest.

NVIDIA through NVML (the package nvidia-ml-py, extra "nvidia"); AMD through sysfs, fdinfo and the KFD driver.
A machine without GPUs, without drivers or without the right to look yields fewer facts, never an error.
"""

# ruff: noqa: N802 (the protocol has pynvml's names)

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import msgspec

from kvlab.facts import gpus

T = TypeVar("T")
Held = dict[tuple[str, int], int]
"""Bytes by PCI place and process."""
_AMD = "0x1002"
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


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
    return _largest_first(named)


def _said(nvml: Nvml, ask: Callable[..., T], *about: object) -> T | None:
    """What NVML answers, or None where it will not."""
    try:
        return ask(*about)
    except nvml.NVMLError:
        return None


def amd_gpus(root: Path, first: int = 0) -> tuple[LocalGpu, ...]:
    """The GPUs that amdgpu shows under `root` ("/" but in tests), in PCI order, numbered from `first`."""
    drm = root / "sys/class/drm"
    cards = (card / "device" for card in drm.glob("card*") if card.name.removeprefix("card").isdigit())
    devices = [device for device in cards if _word(device / "vendor") == _AMD and _word(device / "mem_info_vram_total")]
    if not devices:
        return ()
    held = _amd_processes(root)
    ordered = sorted(devices, key=lambda device: (_slot(device), device.parent.name))
    return tuple(_amd_gpu(root, first + at, device, held) for at, device in enumerate(ordered))


def _amd_gpu(root: Path, index: int, device: Path, held: Held) -> LocalGpu:
    total, used = _number(device / "mem_info_vram_total"), _number(device / "mem_info_vram_used")
    pci_id = _word(device / "device").removeprefix("0x")
    row = gpus.by_pci_id(pci_id, _word(device / "revision").removeprefix("0x"), total)
    rocm = _word(root / "opt/rocm/.info/version").partition("-")[0]
    named = (
        GpuProcess(pid=pid, name=_word(root / f"proc/{pid}/comm") or None, bytes=size)
        for (slot, pid), size in held.items()
        if slot == _slot(device)
    )
    return LocalGpu(
        index=index,
        vendor="amd",
        name=_word(device / "product_name") or f"AMD GPU {pci_id}",
        table_name=row.name if row else None,
        total_bytes=total,
        used_bytes=used,
        free_bytes=total - used if total is not None and used is not None else None,
        driver=_word(root / "sys/module/amdgpu/version") or None,
        runtime=f"ROCm {rocm}" if rocm else None,
        processes=_largest_first(named),
    )


def _amd_processes(root: Path) -> Held:
    """What fdinfo and KFD say of each process, the larger figure of the two: both may count one allocation."""
    held = _fdinfo(root)
    for key, size in _kfd(root).items():
        held[key] = max(size, held.get(key, 0))
    return {key: size for key, size in held.items() if size}


def _fdinfo(root: Path) -> Held:
    """Graphics and compute clients (https://docs.kernel.org/gpu/drm-usage-stats.html); a client counts once."""
    clients: dict[tuple[str, int, str], int] = {}
    for file in (root / "proc").glob("[0-9]*/fdinfo/*"):
        text = _text(file)
        if "drm-driver:\tamdgpu" not in text or not file.parts[-3].isdecimal():
            continue
        facts = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        size = facts.get("drm-memory-vram") or facts.get("drm-resident-vram") or "0"
        key = (facts.get("drm-pdev", ""), int(file.parts[-3]), facts.get("drm-client-id", file.name))
        clients[key] = _bytes(size)
    held: Held = {}
    for (slot, pid, _), vram in clients.items():
        held[slot, pid] = held.get((slot, pid), 0) + vram
    return held


def _kfd(root: Path) -> Held:
    """ROCm processes: /sys/class/kfd/kfd/proc/PID/vram_GPU, GPU being an id that the topology gives a PCI place."""
    kfd = root / "sys/class/kfd/kfd"
    slots: dict[str, str] = {}
    for node in (kfd / "topology/nodes").glob("*"):
        facts = dict(line.split(" ", 1) for line in _text(node / "properties").splitlines() if " " in line)
        place, domain = _count(facts.get("location_id")), _count(facts.get("domain"))
        slots[_word(node / "gpu_id")] = f"{domain:04x}:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}"
    held: Held = {}
    for file in (kfd / "proc").glob("[0-9]*/vram_*"):
        slot, size = slots.get(file.name.removeprefix("vram_")), _number(file)
        if slot is not None and size and file.parent.name.isdecimal():
            held[slot, int(file.parent.name)] = size
    return held


def _largest_first(processes: Iterable[GpuProcess]) -> tuple[GpuProcess, ...]:
    return tuple(sorted(processes, key=lambda process: (-(process.bytes or 0), process.pid)))


def _slot(device: Path) -> str:
    """The PCI place of a device ("0000:03:00.0")."""
    return _text(device / "uevent").partition("PCI_SLOT_NAME=")[2].partition("\n")[0].strip()


def _text(file: Path) -> str:
    """The text of a file of the kernel; "" when it is absent, unreadable, or gone since."""
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


def _word(file: Path) -> str:
    return _text(file).strip()


def _number(file: Path) -> int | None:
    word = _word(file)
    return int(word) if word.isdecimal() else None


def _count(text: str | None) -> int:
    return int(text) if text is not None and text.strip().isdecimal() else 0


def _bytes(text: str) -> int:
    """Bytes of "1024 KiB"; 0 when it is something else."""
    amount, _, unit = text.strip().partition(" ")
    return int(amount) * _UNITS[unit] if amount.isdecimal() and unit in _UNITS else 0
