"""`kvlab report LAB` and `kvlab report FILE`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lab", help="a lab folder (of ab or sweep), its record.json, or the JSON of kvlab traffic")
    parser.add_argument("--folder", help="where to write (default: the lab, or beside the JSON)")


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api

    path = api.report(options.lab, options.folder)

    def show() -> RenderableType:
        return f"report: {path}"

    return Answer({"report": str(path)}, show)


COMMAND = Command("render a lab's record, or the JSON of kvlab traffic, as report.html and charts", _arguments, _run)
