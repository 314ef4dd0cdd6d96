"""NVIDIA's GPUs as `nvidia-smi` prints them: it comes with the driver, where NVML's Python package is not installed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from kvlab.core.units import MIB
from kvlab.detect.found import GpuProcess, LocalGpu, largest_first
from kvlab.facts import gpus

Run = Callable[[Sequence[str]], str | None]
"""Words of a command -> what it prints; None when it is not there or fails."""
_GPUS = "--query-gpu=index,uuid,memory.total,memory.used,memory.free,driver_version,name"
_HOLDERS = "--query-compute-apps=gpu_uuid,pid,used_memory,process_name"
_FORMAT = "--format=csv,noheader,nounits"
_CUDA = re.compile(r"CUDA Version: (\d+\.\d+)")
_SECONDS = 20.0


def smi_gpus(run: Run | None = None) -> tuple[LocalGpu, ...]:
    """The GPUs that nvidia-smi shows; empty without it, or without a driver. `run` stands for the command in tests."""
    ask = run or _run
    listed = ask(("nvidia-smi", _GPUS, _FORMAT))
    if not listed:
        return ()
    holders = list(_holders(ask(("nvidia-smi", _HOLDERS, _FORMAT)) or ""))
    cuda = _CUDA.search(ask(("nvidia-smi",)) or "")
    runtime = f"CUDA {cuda[1]}" if cuda else None
    return tuple(_gpu(fields, holders, runtime) for fields in _rows(listed, 7) if fields[0].isdecimal())


def _gpu(fields: list[str], holders: list[tuple[str, GpuProcess]], runtime: str | None) -> LocalGpu:
    index, uuid, total, used, free, driver, name = fields
    size = _mib(total)
    row = gpus.by_driver_name(name, size)
    return LocalGpu(
        index=int(index),
        vendor="nvidia",
        name=name,
        table_name=row.name if row else None,
        total_bytes=size,
        used_bytes=_mib(used),
        free_bytes=_mib(free),
        driver=driver,
        runtime=runtime,
        processes=largest_first(process for where, process in holders if where == uuid),
    )


def _holders(text: str) -> Iterator[tuple[str, GpuProcess]]:
    """The GPU's UUID and the process, for each. A name may hold commas, so it is asked for last."""
    for uuid, pid, used, name in _rows(text, 4):
        if pid.isdecimal():
            stated = not name.startswith("[")  # "[Not Found]", "[Insufficient Permissions]"
            yield uuid, GpuProcess(pid=int(pid), name=name if stated else None, bytes=_mib(used))


def _rows(text: str, fields: int) -> Iterator[list[str]]:
    for line in text.splitlines():
        row = [field.strip() for field in line.split(",", fields - 1)]
        if len(row) == fields:
            yield row


def _mib(text: str) -> int | None:
    """Bytes; None for "[N/A]" (WDDM, MIG, memory that is shared with the machine)."""
    return int(text) * MIB if text.isdecimal() else None


def _run(words: Sequence[str]) -> str | None:
    import shutil
    import subprocess

    program = shutil.which(words[0])
    if program is None:
        return None
    try:
        done = subprocess.run([program, *words[1:]], capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
