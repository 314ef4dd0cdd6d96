"""`kvlab diagnose URL`, `kvlab diagnose SCRAPE [SCRAPE2]`, `kvlab diagnose CODE`, `kvlab diagnose --list`."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command, positive, refuse_bare_address
from kvlab.core.errors import BadInput, nearest

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        nargs="*",
        help="the URL of a running server; one or two saved /metrics pages; a saved series; or the code of a verdict to"
        " print its page",
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        metavar="N",
        help="how long to look at the URL (default: 30), or the seconds between two scrapes or two rows of a series",
    )
    parser.add_argument("--plan", metavar="FILE", help="the server's plan, by kvlab plan --json (default: none)")
    parser.add_argument("--traffic", metavar="FILE", help="its traffic, by kvlab traffic --json (default: none)")
    parser.add_argument("--engine", help="whose metrics they are (default: as they tell)")
    parser.add_argument(
        "--ttft", type=positive, default=2000.0, metavar="MS", help="objective: 95 %% of first tokens (default: 2000)"
    )
    parser.add_argument(
        "--tpot", type=positive, default=50.0, metavar="MS", help="objective: 95 %% of further tokens (default: 50)"
    )
    parser.add_argument(
        "--save",
        metavar="FILE",
        help="keep what the URL answers as a series, and a file of that name as FILE.old (default: no)",
    )
    parser.add_argument("--list", action="store_true", help="every verdict by its code")


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import diagnoses

    if options.list:
        if options.source:
            raise BadInput("--list takes no scrape: give one or the other")
        return _list()
    if not options.source:
        raise BadInput("give the URL of a running server, a scrape, or --list; see kvlab diagnose --help")
    for source in options.source:
        refuse_bare_address(source)
    first = options.source[0]
    if len(options.source) == 1 and "://" not in first and not os.path.exists(first):
        if first in diagnoses.codes():
            return _page(first)
        if first.replace("_", "").isalnum():
            raise BadInput(f"no scrape and no verdict called {first!r}; {nearest(first, diagnoses.codes())}")
    return _diagnose(options)


def _diagnose(options: argparse.Namespace) -> Answer:
    from kvlab.api import diagnose
    from kvlab.cli.progress import counted
    from kvlab.diagnosing import SECONDS

    with counted(f"looking at the server for {options.seconds or SECONDS:g} s") as show:
        found = diagnose(
            *options.source,
            plan=options.plan,
            on_count=show,
            seconds=options.seconds,
            engine=options.engine,
            ttft_seconds=options.ttft / 1000,
            tpot_seconds=options.tpot / 1000,
            traffic=options.traffic,
            save=options.save,
        )

    def show_it() -> RenderableType:
        from kvlab.reporting.terminal_diagnosis import diagnosis

        return diagnosis(found)

    return Answer(found, show_it)


def _page(code: str) -> Answer:
    from kvlab.diagnoses import page

    found = page(code)

    def show() -> RenderableType:
        from kvlab.reporting.terminal_diagnosis import verdict_page

        return verdict_page(found)

    return Answer(found, show)


def _list() -> Answer:
    from kvlab.diagnosing import listing

    found = listing()

    def show() -> RenderableType:
        from kvlab.reporting.terminal_diagnosis import verdict_list

        return verdict_list(found)

    return Answer(found, show)


COMMAND = Command("what a server at work is short of, by its metrics, and what to do about it", _arguments, _run)
