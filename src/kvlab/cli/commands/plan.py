"""`kvlab plan SOURCE`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from kvlab.cli.asking import add_arguments, ask
from kvlab.cli.command import Answer, Command, count
from kvlab.cli.stderr import say
from kvlab.core.errors import BadInput
from kvlab.core.sizing import Search, is_pattern

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvlab.core.plan import Plan


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a Hub id, a folder, a config.json or a .gguf file")
    add_arguments(parser)
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit 1 unless one request, and all --users, fit without a doubt (without --gpu: on some GPUs)",
    )
    backwards = parser.add_argument_group("which GPUs (--users without --gpu, or with --gpu 'h100*,mi3*' or 'amd,')")
    backwards.add_argument(
        "--price", action="append", default=[], metavar="GPU=USD", help="dollars an hour for one GPU; repeatable"
    )
    backwards.add_argument(
        "--prices",
        metavar="FILE",
        help='TOML lines like "h100-80gb" = 2.49 (default: $KVLAB_PRICES, else kvlab/prices.toml in ~/.config)',
    )
    backwards.add_argument("--limit", type=count, default=10, help="rows to list; the rest are counted (default: 10)")
    backwards.add_argument("--matrix", action="store_true", help="requests at once by cache dtype, context and TP")
    backwards.add_argument(
        "--pareto", action="store_true", help="what no other choice beats in requests, context, cost and cache dtype"
    )

    written = parser.add_argument_group("artefacts")
    written.add_argument(
        "--write",
        metavar="DIR",
        help="write the launch script, the engine's files, compose and Kubernetes to DIR (default: nothing is written)",
    )
    written.add_argument(
        "--check-flags", action="store_true", help="ask the installed engine for its options (--write does so too)"
    )


def _run(options: argparse.Namespace) -> Answer:
    plan = _plan(options)
    if options.write is not None or options.check_flags:
        from kvlab.api import checked_flags

        plan = checked_flags(plan)
    if options.write is not None:
        from kvlab.api import artefacts

        there = set(os.listdir(options.write)) if os.path.isdir(options.write) else set()
        for path in artefacts(plan, options.write):
            say(f"kvlab: {'replaced' if path.name in there else 'wrote'} {path}")

    def show() -> RenderableType:
        from kvlab.reporting import terminal

        return terminal.plan(plan)

    short = plan.verdict.code != "fits" or plan.verdict.holds_users is False
    if plan.candidates is not None:  # then the question was which GPUs
        short = not any(row.verdict == "holds" for row in plan.candidates.rows)
    failed = options.strict and (short or plan.doubts)
    return Answer(plan, show, exit_code=1 if failed else 0)


def _plan(options: argparse.Namespace) -> Plan:
    from kvlab.api import plan_ask

    asked = ask(options)
    backwards = is_pattern(asked.gpu) or (not asked.placed and asked.users is not None)
    if (options.price or options.prices is not None) and not (backwards or options.pareto):
        raise BadInput("--price and --prices order GPUs; add --users without --gpu, --gpu 'h100*', or --pareto")
    if not asked.placed and not backwards and not (options.matrix or options.pareto):
        return plan_ask(options.source, asked)
    prices = _prices(options) if backwards or options.pareto else {}
    search = Search(prices=prices, limit=options.limit, matrix=options.matrix, pareto=options.pareto)
    if not sys.stderr.isatty() or not backwards:  # a few seconds: a bar is for those who watch
        return plan_ask(options.source, asked, search)
    from kvlab.cli import progress

    with progress.counted("kinds of GPU tried") as tell:
        return plan_ask(options.source, asked, search, tell)


def _prices(options: argparse.Namespace) -> dict[str, float]:
    """What the file says, and over it what the command line says."""
    from kvlab import prices

    given: dict[str, object] = {}
    for text in options.price:
        name, _, amount = text.partition("=")
        try:
            given[name.strip()] = float(amount)
        except ValueError:
            raise BadInput(f"--price {text!r} is no price; write GPU=USD_PER_HOUR, as in h100-80gb=2.49") from None
    return {**prices.read(options.prices), **prices.checked(given, "--price")}


COMMAND = Command("what a model's cache costs, what a GPU holds, and the launch command", _arguments, _run)
