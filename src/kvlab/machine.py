"""Where numbers are made: no host name, no user, no path."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from kvlab.core.record import Machine


def describe() -> Machine:
    """This machine, as far as it bears on a measurement."""
    import psutil

    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        memory_bytes=psutil.virtual_memory().total,
        python=platform.python_version(),
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def now() -> str:
    """UTC in ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
