"""The GPU table: gpus.toml as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kvlab.core.engine import Gpu
from kvlab.core.errors import UnknownGpu, nearest
from kvlab.core.units import GIB
from kvlab.facts.formats import native_formats

SAME_CARD = 0.12
"""How far the memory of a card may be from its row's: variants sold under one name differ by at least a fifth."""


@cache
def table() -> dict[str, Gpu]:
    """Every GPU by its name."""
    import tomllib

    return {name: _gpu(name, row) for name, row in tomllib.loads(_text()).items()}


def find(name: str) -> Gpu:
    """The GPU of that name or alias. "cpu" is the machine's own memory. Raises UnknownGpu naming the nearest."""
    wanted = name.lower().strip().replace(" ", "-").replace("_", "-")
    if wanted == "cpu":
        return _cpu()
    found = _row_of(wanted)
    if found is None:
        known = [alias for gpu in table().values() for alias in (gpu.name, *gpu.aliases)]
        raise UnknownGpu(f"no GPU called {name!r}; {nearest(name, known)} (all: kvlab gpus), or give --gpu-gib X")
    return found


_ALONE = ("dgx-spark", "jetson", "strix-halo")


def is_alone(gpu: Gpu) -> bool:
    """Whether a GPU is the only one of its machine, soldered to it: its memory is the system's too."""
    return gpu.vendor == "apple" or gpu.name.startswith(_ALONE)


def by_driver_name(driver_name: str, total_bytes: int | None) -> Gpu | None:
    """The row of a card that the driver calls so; None when there is none whose memory is near `total_bytes`."""
    wanted = driver_name.casefold().strip()
    rows = [gpu for gpu in table().values() if wanted in map(str.casefold, gpu.driver_names)]
    return _nearest_memory(rows, total_bytes)


def by_pci_id(device: str, revision: str, total_bytes: int | None) -> Gpu | None:
    """The row of a card with that PCI device id and revision, both hexadecimal without 0x; None as above."""
    ids = (device.lower(), f"{device}:{revision}".lower())
    rows = [gpu for gpu in table().values() if not set(ids).isdisjoint(gpu.pci_ids)]
    return _nearest_memory(rows, total_bytes)


def _nearest_memory(rows: Iterable[Gpu], total_bytes: int | None) -> Gpu | None:
    if total_bytes is None:
        only = list(rows)
        return only[0] if len(only) == 1 else None
    near = [(abs(gpu.usable_bytes / total_bytes - 1), at, gpu) for at, gpu in enumerate(rows)] if total_bytes else []
    return min(near)[2] if near and min(near)[0] <= SAME_CARD else None


@cache
def _text() -> str:
    return Path(__file__).with_name("gpus.toml").read_text("utf-8")


def _row_of(wanted: str) -> Gpu | None:
    """One row without parsing the others, which would cost a plan several milliseconds."""
    import tomllib

    for section in _text().split("\n[")[1:]:
        name, _, body = section.partition("]\n")
        aliases = body.partition("\naliases = ")[2].partition("\n")[0]
        if wanted == name or f'"{wanted}"' in aliases:
            return _gpu(name, tomllib.loads(body))
    return None


def _gpu(name: str, row: Mapping[str, Any]) -> Gpu:
    capability = tuple(row["capability"]) if "capability" in row else None
    return Gpu(
        name=name,
        title=row["title"],
        usable_bytes=round(row["usable_gib"] * GIB),
        bandwidth=row["bandwidth_gbs"] * 1e9,
        compute_capability=capability,
        source=row["source"],
        aliases=tuple(row["aliases"]),
        vendor=row["vendor"],
        arch=row.get("arch"),
        bf16_flops=_rate(row, "bf16"),
        fp16_flops=_rate(row, "fp16"),
        fp8_flops=_rate(row, "fp8"),
        fp4_flops=_rate(row, "fp4"),
        formats=native_formats(capability, row.get("arch")),
        driver_names=tuple(row.get("driver", ())),
        pci_ids=tuple(row.get("pci", ())),
    )


def _rate(row: Mapping[str, Any], dtype: str) -> float | None:
    tflops = row.get(f"{dtype}_tflops")
    return None if tflops is None else tflops * 1e12


def _cpu() -> Gpu:
    import psutil

    return Gpu(
        name="cpu",
        title="this machine's memory",
        usable_bytes=psutil.virtual_memory().total,
        bandwidth=None,
        source="the operating system",
    )
