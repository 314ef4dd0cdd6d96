"""`kvlab plan SOURCE`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.asking import add_arguments, ask
from kvlab.cli.command import Answer, Command

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a Hub id, a folder, a config.json or a .gguf file")
    add_arguments(parser)
    parser.add_argument(
        "--strict", action="store_true", help="exit 1 unless one request, and all --users, fit without a doubt"
    )


def _run(options: argparse.Namespace) -> Answer:
    from kvlab.api import plan_ask

    plan = plan_ask(options.source, ask(options))

    def show() -> RenderableType:
        from kvlab.reporting import terminal

        return terminal.plan(plan)

    short = plan.verdict.code != "fits" or plan.verdict.holds_users is False
    failed = options.strict and (short or plan.doubts)
    return Answer(plan, show, exit_code=1 if failed else 0)


COMMAND = Command("what a model's cache costs, what a GPU holds, and the launch command", _arguments, _run)
