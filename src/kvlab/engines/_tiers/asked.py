"""A request for a tier in bytes: of one replica and of one rank, before an engine rounds it to what it can say."""

from __future__ import annotations

from kvlab.core.plan import Ask, Expected
from kvlab.core.tiers import FOLDER


def ranks(ask: Ask) -> int:
    """Ranks of one replica, each with keys and values of its own."""
    return (ask.tp or 1) * ask.pp


def host_gib(ask: Ask) -> float:
    """Host memory of one replica's tier in GiB, for a tier that has a size."""
    assert ask.offload_gib is not None  # a request without one was refused (tiering.check)
    return ask.offload_gib / ask.dp


def disk_gib(ask: Ask) -> float:
    """Disk of one replica's tier in GiB; 0 without one."""
    return (ask.offload_disk_gib or 0) / ask.dp


def folder(ask: Ask) -> str:
    """The folder of the disk tier."""
    return ask.offload_dir or FOLDER


def of_each(count: int) -> str:
    """Whose a size is when every rank has its own."""
    return "of its one rank" if count == 1 else f"of each of {count} ranks"


def for_each_replica(ask: Ask) -> str:
    """Words that a size is one replica's; "" with a single replica."""
    return f", for each of {ask.dp} replicas" if ask.dp > 1 else ""


def exactly(name: str, value: float, unit: str, tolerance: float, because: str) -> Expected:
    """A number of the tier that the log states."""
    return Expected(name=name, value=value, unit=unit, kind="computed", tolerance=tolerance, because=because)


def requests(tokens: int | None, context: int) -> float | None:
    """Requests of `context` tokens in a tier of `tokens`."""
    return None if tokens is None else tokens / context
