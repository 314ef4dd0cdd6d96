"""`kvlab explain LOG`, `kvlab explain CODE`, `kvlab explain --list`."""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

_WORD = re.compile(r"[\w:-]{1,100}")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "log",
        nargs="?",
        help="the engine's log, - for standard input, or a code that kvlab named (a rule, a verdict, a cause, what"
        " breaks a prefix, a move) to print its page",
    )
    parser.add_argument("--engine", help="whose log it is (default: as the lines tell)")
    parser.add_argument(
        "--list", action="store_true", help="every rule by its code, and all other codes that have a page"
    )


def _run(options: argparse.Namespace) -> Answer:
    if options.list:
        if options.log is not None:
            raise BadInput("--list takes no log: give one or the other")
        return _list()
    if options.log is None:
        raise BadInput("give the engine's log, - for standard input, or --list; see kvlab explain --help")
    if options.log != "-" and not os.path.exists(options.log) and _WORD.fullmatch(options.log):
        return _page(options.log)
    return _explain(options.log, options.engine)


def _explain(log: str, engine: str | None) -> Answer:
    from kvlab.api import explain

    found = explain(log, engine=engine)

    def show() -> RenderableType:
        from kvlab.reporting.terminal_findings import explained

        return explained(found)

    return Answer(found, show)


def _page(name: str) -> Answer:
    from kvlab import codes

    found = codes.find(name)

    def show() -> RenderableType:
        from kvlab.reporting.terminal_codes import any_page

        return any_page(found)

    return Answer(found.page, show)


def _list() -> Answer:
    from kvlab.api import explain_list

    found = explain_list()

    def show() -> RenderableType:
        from kvlab.reporting.terminal_codes import code_list

        return code_list(found)

    return Answer(found, show)


COMMAND = Command("what a log says went wrong, why, and what to do in order of cost", _arguments, _run)
