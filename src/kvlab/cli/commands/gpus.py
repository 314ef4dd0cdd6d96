"""`kvlab gpus`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="one GPU; all when left out")


def _run(options: argparse.Namespace) -> Answer:
    from kvlab.facts.gpus import find, table

    gpus = [find(options.name)] if options.name else list(table().values())

    def show() -> RenderableType:
        from rich.table import Table

        from kvlab.core.units import gib

        grid = Table("name", "GPU", "usable", "bandwidth", "also called")
        for gpu in gpus:
            speed = f"{gpu.bandwidth / 1e9:,.0f} GB/s" if gpu.bandwidth else "not stated"
            grid.add_row(gpu.name, gpu.title, gib(gpu.usable_bytes), speed, ", ".join(gpu.aliases))
        return grid

    return Answer(gpus, show)


COMMAND = Command("the GPUs that --gpu knows, with usable memory and bandwidth", _arguments, _run)
