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
    from kvlab.reporting.terminal_parts import Sheet


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
    from kvlab import api

    if name:
        from kvlab.facts.gpus import find

        gpu = find(name)
        return Answer([gpu], lambda: _show_one(gpu))
    gpus = api.gpus()
    return Answer(gpus, lambda: _show_known(gpus))


def _show_known(gpus: Sequence[Gpu]) -> RenderableType:
    from rich.console import Group

    from kvlab.reporting.terminal_parts import FirstThatFits, note

    choices = [_sheet(gpus, columns) for columns in _COLUMNS]
    notes = (
        "GB/s: memory bandwidth. bf16, fp8: dense TFLOP/s, fp16 where it says so. formats: read in hardware.",
        "Empty where the chip has no such unit or its maker states nothing.",
    )
    return Group(FirstThatFits(*choices), *map(note, notes))


_ALL = ("name", "GPU", "vendor", "usable", "GB/s", "bf16", "fp8", "formats", "also called")
_COLUMNS = (
    _ALL,
    ("name", "usable", "GB/s", "bf16", "fp8", "formats", "also called"),
    ("name", "usable", "GB/s", "bf16", "fp8", "formats"),
    ("name", "usable", "GB/s", "formats"),
    ("name", "usable", "formats"),
    ("name", "usable"),
)
"""Columns of the table, for screens from wide to narrow."""
_NUMBERS = ("usable", "GB/s", "bf16", "fp8")


def _sheet(gpus: Sequence[Gpu], columns: Sequence[str]) -> tuple[Sheet, list[RenderableType]]:
    """The table with those columns, and the names of the others."""
    from rich.text import Text

    from kvlab.reporting.terminal_parts import left, note, right, table

    body = table(
        *(right(name) if name in _NUMBERS else left(name, name not in ("name", "formats")) for name in columns)
    )
    for gpu in gpus:
        cells = _cells(gpu)
        body.add_row(*(Text(cells[name]) for name in columns))
    hidden = [name for name in _ALL if name not in columns]
    return body, [note(f"also on a wider screen and in --json: {', '.join(hidden)}")] if hidden else []


def _cells(gpu: Gpu) -> dict[str, str]:
    from kvlab.core.units import gib

    return {
        "name": gpu.name,
        "GPU": gpu.title,
        "vendor": gpu.vendor or "",
        "usable": gib(gpu.usable_bytes),
        "GB/s": f"{gpu.bandwidth / 1e9:,.0f}" if gpu.bandwidth else "",
        "bf16": _tflops(gpu.bf16_flops) or _tflops(gpu.fp16_flops, " fp16"),
        "fp8": _tflops(gpu.fp8_flops),
        "formats": " ".join(gpu.formats or ()),
        "also called": ", ".join(gpu.aliases),
    }


def _show_one(gpu: Gpu) -> RenderableType:
    from kvlab.reporting.terminal_parts import facts

    cells = _cells(gpu) | {"fp4": _tflops(gpu.fp4_flops)}
    units = {
        "GB/s": " of memory bandwidth",
        "bf16": " TFLOP/s, dense",
        "fp8": " TFLOP/s, dense",
        "fp4": " TFLOP/s, dense",
    }
    return facts(
        [(name, f"{cell}{units.get(name, '')}") for name, cell in cells.items() if cell] + [("source", gpu.source)]
    )


def _tflops(rate: float | None, unit: str = "") -> str:
    if rate is None:
        return ""
    return f"{rate / 1e12:,.0f}{unit}" if rate >= 1e15 else f"{rate / 1e12:.4g}{unit}"


def _show_local(found: Sequence[LocalGpu]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from kvlab.reporting import words
    from kvlab.reporting.terminal_parts import left, right, table

    if not found:
        return _none_found()
    columns = ("the driver calls it", "--gpu", "total", "free", "driver", "runtime")
    grid = table(right("GPU"), *(right(name) if name in ("total", "free") else left(name) for name in columns))
    held = table(right("GPU"), right("process"), left("name"), right("holds"))
    for gpu in found:
        memory = (_gib(gpu.total_bytes), _gib(gpu.free_bytes))
        said = (gpu.driver or "not stated", gpu.runtime or "not stated")
        cells = (str(gpu.index), gpu.name, gpu.table_name or "not in the table", *memory, *said)
        grid.add_row(*map(Text, cells))
        for process in gpu.processes:
            name = words.plain(process.name or "not readable")
            held.add_row(*map(Text, (str(gpu.index), str(process.pid), name, _gib(process.bytes))))
    return Group(grid, Text(), held) if any(gpu.processes for gpu in found) else grid


def _gib(size: int | None) -> str:
    from kvlab.core.units import gib

    return "not stated" if size is None else gib(size)


def _none_found() -> RenderableType:
    from rich.text import Text

    from kvlab.detect import load_nvml

    nvidia = (
        "NVML shows no NVIDIA GPU"
        if load_nvml() is not None
        else "nvidia-smi shows no NVIDIA GPU (pip install 'kvlab[nvidia]' asks NVML itself)"
    )
    return Text(f"No GPU found: {nvidia}; sysfs shows no AMD GPU.")


COMMAND = Command("the GPUs that --gpu knows, or with --local those of this machine", _arguments, _run)
