"""`kvlab compare A B`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", help="a result file of any known tool; of several runs, FILE#2 is the second")
    parser.add_argument("b", help="another one")


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api

    found = api.compare(options.a, options.b)

    def show() -> RenderableType:
        from kvlab.reporting import terminal

        return terminal.compare(found)

    return Answer(found, show)


COMMAND = Command("two result files, metric by metric, with intervals where they hold the requests", _arguments, _run)
