"""`kvlab check LOG --plan plan.json`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command, refuse_bare_address
from kvlab.cli.stderr import say
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", help="the engine's start-up log, - for standard input, or the URL of a running server")
    parser.add_argument(
        "--plan", metavar="FILE", help="a plan written by kvlab plan --json (default: none, only what the log says)"
    )
    parser.add_argument("--engine", help="whose log it is (default: as the lines tell)")
    parser.add_argument(
        "--learn",
        action="store_true",
        help="keep what this start really took for the next plans of the same engine, release and GPU (default: no)",
    )
    parser.add_argument(
        "--source",
        help="the plan's model, to plan again with the log's settings (default: where the plan says that it is)",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 when a line differs or no size is confirmed")


def _run(options: argparse.Namespace) -> Answer:
    from kvlab.api import check

    for flag in ("strict", "source"):
        if getattr(options, flag) and options.plan is None:
            raise BadInput(f"--{flag} compares with a plan: give --plan FILE")
    refuse_bare_address(options.log)
    found = check(options.log, plan=options.plan, engine=options.engine, learn=options.learn, source=options.source)

    if found.learned is not None:
        from kvlab.calibration import path
        from kvlab.core.units import gib

        start = found.learned
        taken = f"weights {gib(start.weights_bytes)}, " if start.weights_bytes is not None else ""
        text = f"{taken}overhead {gib(start.overhead_bytes)}, estimated {gib(start.estimated_overhead_bytes)}"
        say(f"learned for {start.engine} {start.version} on {start.gpu}: {text}; kept in {path()}")

    def show() -> RenderableType:
        from kvlab.reporting import terminal

        return terminal.check(found)

    failed = options.strict and options.plan is not None and not found.agrees
    return Answer(found, show, exit_code=1 if failed else 0)


COMMAND = Command("the engine's own log against the plan: agrees, differs and why, not seen", _arguments, _run)
