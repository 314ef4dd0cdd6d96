"""AMD's GPUs through sysfs, fdinfo and the KFD driver."""

from __future__ import annotations

from pathlib import Path

from kvlab.detect.found import GpuProcess, LocalGpu, largest_first
from kvlab.facts import gpus

Held = dict[tuple[str, int], int]
"""Bytes by PCI place and process."""
_AMD = "0x1002"
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


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
        processes=largest_first(named),
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
