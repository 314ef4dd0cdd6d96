"""`kvlab explain LOG`, `kvlab explain CODE`, `kvlab explain --list`."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command
from kvlab.core.errors import BadInput, nearest

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "log", nargs="?", help="the engine's log, - for standard input, or the code of a rule to print its page"
    )
    parser.add_argument("--engine", help="whose log it is (default: as the lines tell)")
    parser.add_argument("--list", action="store_true", help="every rule by its code")


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import rules

    if options.list:
        if options.log is not None:
            raise BadInput("--list takes no log: give one or the other")
        return _list()
    if options.log is None:
        raise BadInput("give the engine's log, - for standard input, or --list; see kvlab explain --help")
    if options.log != "-" and not os.path.exists(options.log):
        if options.log in rules.codes():
            return _page(options.log)
        if options.log.replace("_", "").replace("-", "").isalnum():
            raise BadInput(f"no log and no rule called {options.log!r}; {nearest(options.log, rules.codes())}")
    return _explain(options.log, options.engine)


def _explain(log: str, engine: str | None) -> Answer:
    from kvlab.api import explain

    found = explain(log, engine=engine)

    def show() -> RenderableType:
        from kvlab.reporting.terminal_findings import explained

        return explained(found)

    return Answer(found, show)


def _page(code: str) -> Answer:
    from kvlab.symptoms import page

    found = page(code)

    def show() -> RenderableType:
        from kvlab.reporting.terminal_findings import rule_page

        return rule_page(found)

    return Answer(found, show)


def _list() -> Answer:
    from kvlab.symptoms import listing

    found = listing()

    def show() -> RenderableType:
        from kvlab.reporting.terminal_findings import rule_list

        return rule_list(found)

    return Answer(found, show)


COMMAND = Command("what a log says went wrong, why, and what to do in order of cost", _arguments, _run)
