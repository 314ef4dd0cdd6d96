"""`kvlab verify kvlab.lock`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command, count

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lock", nargs="?", default="kvlab.lock", help="(default: kvlab.lock in the working folder)")
    parser.add_argument("--lab", metavar="DIR", help="folder of the runs (default: kvlab-verify, or the next free)")
    parser.add_argument(
        "--source", metavar="PATH", help="the local model (default: that of its name here or beside the lock)"
    )
    parser.add_argument("--prompts", metavar="FILE", help="the file of prompts (default: alike)")
    parser.add_argument("--runs", type=count, metavar="N", help="runs to make (default: as many as were frozen)")
    parser.add_argument(
        "--engine-arg",
        action="append",
        default=[],
        metavar="FLAG=VALUE",
        help="a flag whose path the lock did not keep, or another value for one; repeatable",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 when the result is inconclusive, too")


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api
    from kvlab.cli import progress
    from kvlab.cli.asking import engine_arg
    from kvlab.store import place
    from kvlab.verifying import lab_of

    arguments = [engine_arg(text) for text in options.engine_arg]
    lab = lab_of(None if options.lab is None else Path(place(options.lab, "lab")))
    with progress.resumable(lab), progress.steps() as on_step:
        found = api.verify(
            options.lock,
            lab=lab,
            source=options.source,
            prompts=options.prompts,
            runs=options.runs,
            engine_args=arguments,
            on_step=on_step,
        )

    def show() -> RenderableType:
        from kvlab.reporting import terminal_keep

        return terminal_keep.verify(found)

    code = found.verdict.code
    return Answer(found, show, exit_code=int(code == "regression" or (options.strict and code == "inconclusive")))


COMMAND = Command("run a frozen configuration again; exit 1 on a regression beyond the noise", _arguments, _run)
