"""Kinds of GPU to choose from: what a pattern names, what an engine does not run on and why, what is preferred."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from kvlab.core.engine import Gpu, Planner
from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask
from kvlab.core.sizing import Candidate, NotRun
from kvlab.core.units import ceil_div
from kvlab.facts import gpus

MACHINE = 8
"""GPUs of one machine: what HGX and OAM boards carry, and what PCIe servers take."""
MOST_GPUS = 8 * MACHINE
"""Largest number of GPUs that is tried."""
_CONSUMER = ("NVIDIA GeForce", "NVIDIA TITAN", "AMD Radeon RX", "Intel Arc A", "Intel Arc B")
"""Titles of cards for desktops: https://docs.nvidia.com/cuda/gpudirect-rdma/ names Tesla and Quadro alone."""
_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple"}


def matching(planner: Planner, ask: Ask, only: str | None) -> tuple[list[Gpu], tuple[NotRun, ...]]:
    """GPUs that the patterns allow and the engine runs on, and those that it does not run on, by reason.

    Raises BadInput when there are none to try.
    """
    patterns = [word.strip().lower() for word in (only or "*").split(",") if word.strip()]
    every = list(gpus.table().values())
    found = [
        gpu
        for gpu in every
        if any(
            fnmatch.fnmatchcase(name, word) for word in patterns for name in (gpu.name, *gpu.aliases, gpu.vendor or "")
        )
    ]
    if not found:
        raise BadInput(f"no GPU matches {only!r}; see kvlab gpus, and write patterns as h100*,mi3* or a vendor")
    supported = [gpu for gpu in every if planner.runs_on is None or planner.runs_on(gpu, ask)]
    by_reason: dict[str, list[str]] = {}
    for gpu in found:
        if gpu not in supported:
            by_reason.setdefault(_why_not(gpu, supported), []).append(gpu.name)
    running = [gpu for gpu in found if gpu in supported]
    if not running:
        raise BadInput(
            f"{ask.engine} runs on none of the GPUs that match {only!r} ({'; '.join(by_reason)}); name others, or"
            " another --engine"
        )
    return running, tuple(NotRun(reason, tuple(names)) for reason, names in by_reason.items())


def _why_not(gpu: Gpu, supported: Iterable[Gpu]) -> str:
    """What sets a GPU apart from those of its maker that the engine runs on."""
    vendor = _VENDORS.get(gpu.vendor or "", gpu.vendor or "unknown")
    kin = [other for other in supported if other.vendor == gpu.vendor]
    if not kin:
        return f"{vendor} GPUs"
    known = [other.compute_capability for other in kin if other.compute_capability is not None]
    if gpu.compute_capability is not None and known and gpu.compute_capability < min(known):
        return "compute capability below {}.{}".format(*min(known))
    return f"{vendor} architecture {gpu.arch}"


def machines(gpu: Gpu, number: int) -> int:
    """Machines that so many GPUs of a kind fill."""
    return number if gpus.is_alone(gpu) else ceil_div(number, MACHINE)


def most_ranks(gpu: Gpu) -> int:
    """GPUs over which one copy of a model may be split.

    Cards for desktops have no NVLink and no GPUDirect RDMA to another machine, so they stay within one.
    """
    if gpus.is_alone(gpu):
        return 1
    return MACHINE if gpu.title.startswith(_CONSUMER) else MOST_GPUS


def preference(row: Candidate) -> tuple[bool, bool, float, bool, int, int, int, str]:
    """What surely holds first; then by price; what has none by whose memory it is, machines, GPUs, then memory.

    Memory that the system and its programs use as well comes last: how much of it is free, no table can say.
    """
    gpu = gpus.table()[row.gpu]
    return (
        row.verdict != "holds",
        row.usd_per_hour is None,
        row.usd_per_hour or 0.0,
        gpus.is_alone(gpu),
        machines(gpu, row.gpus),
        row.gpus,
        row.memory_bytes,
        row.gpu,
    )
