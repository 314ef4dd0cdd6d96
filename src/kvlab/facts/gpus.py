"""The GPU table: gpus.toml as values."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kvlab.core.engine import Gpu
from kvlab.core.errors import UnknownGpu, nearest
from kvlab.core.units import GIB


@cache
def table() -> dict[str, Gpu]:
    """Every GPU by its name."""
    import tomllib

    rows = tomllib.loads(Path(__file__).with_name("gpus.toml").read_text("utf-8"))
    return {
        name: Gpu(
            name=name,
            title=row["title"],
            usable_bytes=round(row["usable_gib"] * GIB),
            bandwidth=row["bandwidth_gbs"] * 1e9,
            compute_capability=tuple(row["capability"]) if "capability" in row else None,
            source=row["source"],
            aliases=tuple(row["aliases"]),
        )
        for name, row in rows.items()
    }


def find(name: str) -> Gpu:
    """The GPU of that name or alias. "cpu" is the machine's own memory. Raises UnknownGpu naming the nearest."""
    if name == "cpu":
        return _cpu()
    gpus = table()
    by_name = {alias: gpu for gpu in gpus.values() for alias in (gpu.name, *gpu.aliases)}
    found = by_name.get(name.lower().strip().replace(" ", "-").replace("_", "-"))
    if found is None:
        raise UnknownGpu(f"no GPU called {name!r}; {nearest(name, by_name)} (all: kvlab gpus), or give --gpu-gib X")
    return found


def _cpu() -> Gpu:
    import psutil

    return Gpu(
        name="cpu",
        title="this machine's memory",
        usable_bytes=psutil.virtual_memory().total,
        bandwidth=None,
        source="the operating system",
    )
