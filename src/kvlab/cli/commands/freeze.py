"""`kvlab freeze LAB`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lab", nargs="?", help="the folder of a finished experiment")
    parser.add_argument("--plan", metavar="FILE", help="freeze this plan, without measurements (default: a lab)")
    parser.add_argument("--arm", choices=("a", "b"), help="(default: b if it was better, else a)")
    parser.add_argument("--force", action="store_true", help="replace a kvlab.lock that is there")


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api
    from kvlab.cli import progress

    folder = Path(options.output or ".")
    options.output = None  # here it names the folder of the files, not a file for the document
    with progress.counted("hashing the weights") as tell:
        found = api.freeze(options.lab, folder, plan=options.plan, arm=options.arm, force=options.force, progress=tell)

    def show() -> RenderableType:
        from kvlab.reporting import terminal_keep

        return terminal_keep.freeze(found, folder)

    return Answer(found, show)


COMMAND = Command(
    "write the engine's config file, kvlab.lock and MEASUREMENTS.md of a decision",
    _arguments,
    _run,
    output_folder=True,
)
