"""`kvlab gpus`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvlab.core.engine import Gpu
    from kvlab.detect import LocalGpu


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="one GPU; all when left out")
    parser.add_argument("--local", action="store_true", help="the GPUs of this machine, and what holds their memory")


def _run(options: argparse.Namespace) -> Answer:
    from kvlab.core.errors import BadInput

    if not options.local:
        return _known(options.name)
    if options.name:
        raise BadInput("--local lists this machine's own GPUs: leave the name out")
    from kvlab.detect import local_gpus

    found = local_gpus()
    return Answer(found, lambda: _show_local(found))


def _known(name: str | None) -> Answer:
    from kvlab.facts.gpus import find, table

    gpus = [find(name)] if name else list(table().values())
    return Answer(gpus, lambda: _show_known(gpus))


def _show_known(gpus: Sequence[Gpu]) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    from kvlab.core.units import gib

    grid = Table()
    for header in ("name", "GPU", "vendor", "usable", "GB/s", "bf16", "fp8", "also called"):
        grid.add_column(header, no_wrap=header in ("name", "usable", "bf16"))
    for gpu in gpus:
        speed = f"{gpu.bandwidth / 1e9:,.0f}" if gpu.bandwidth else "not stated"
        rates = (_tflops(gpu.bf16_flops) or _tflops(gpu.fp16_flops, " fp16"), _tflops(gpu.fp8_flops))
        called = ", ".join(gpu.aliases)
        grid.add_row(gpu.name, gpu.title, gpu.vendor or "", gib(gpu.usable_bytes), speed, *rates, called)
    note = "bf16, fp8: dense TFLOP/s; empty where the chip has no such unit or its maker states no rate."
    if len(gpus) == 1:
        note += f"\nSource: {gpus[0].source}."
    return Group(grid, note)


def _tflops(rate: float | None, unit: str = "") -> str:
    if rate is None:
        return ""
    return f"{rate / 1e12:,.0f}{unit}" if rate >= 1e15 else f"{rate / 1e12:.4g}{unit}"


def _show_local(found: Sequence[LocalGpu]) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    if not found:
        return _none_found()
    grid = Table("GPU", "the driver calls it", "--gpu", "total", "free", "driver", "runtime")
    held = Table("GPU", "process", "name", "holds")
    for gpu in found:
        memory = (_gib(gpu.total_bytes), _gib(gpu.free_bytes))
        facts = (gpu.driver or "not stated", gpu.runtime or "not stated")
        grid.add_row(str(gpu.index), gpu.name, gpu.table_name or "not in the table", *memory, *facts)
        for process in gpu.processes:
            held.add_row(str(gpu.index), str(process.pid), process.name or "not readable", _gib(process.bytes))
    return Group(grid, held) if held.row_count else grid


def _gib(size: int | None) -> str:
    from kvlab.core.units import gib

    return "not stated" if size is None else gib(size)


def _none_found() -> str:
    from kvlab.detect import load_nvml

    nvidia = (
        "NVML shows no NVIDIA GPU"
        if load_nvml() is not None
        else "NVIDIA was not asked: pip install 'kvlab[nvidia]' adds NVML"
    )
    return f"No GPU found: {nvidia}; sysfs shows no AMD GPU."


COMMAND = Command("the GPUs that --gpu knows, or with --local those of this machine", _arguments, _run)
