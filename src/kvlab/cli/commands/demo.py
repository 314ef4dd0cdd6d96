"""`kvlab demo`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lab", default="kvlab-demo", help="folder of the demo (default: kvlab-demo)")


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api, showcase
    from kvlab.cli import progress

    lab = showcase.folder(Path(options.lab))
    with progress.resumable(lab), progress.steps() as on_step:
        record = api.demo(lab, on_step=on_step)

    def show() -> RenderableType:
        from kvlab.cli.endings import finished

        return finished(record, lab)

    return Answer(record.ab, show)


COMMAND = Command("the whole loop on the embedded engine: about six minutes, ends in a report", _arguments, _run)
