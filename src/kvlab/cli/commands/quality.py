"""`kvlab quality`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.asking import add_arguments, arms
from kvlab.cli.command import Answer, Command, count
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", nargs="+", help="a model to launch twice (with --b), or the addresses of A and of B")
    parser.add_argument(
        "--a", action="append", default=[], metavar="NAME=VALUE", help="what arm A sets; repeatable (default: nothing)"
    )
    parser.add_argument(
        "--b", action="append", default=[], metavar="NAME=VALUE", help="what arm B sets: kv-dtype=q8_0; repeatable"
    )
    parser.add_argument("--prompts", metavar="FILE", help="prompts of the gate (default: the 48 shipped)")
    parser.add_argument("--max-tokens", type=count, default=64, help="longest answer (default: 64)")
    parser.add_argument(
        "--concurrency", type=count, default=1, help="requests in flight (default: 1; more add batch noise)"
    )
    parser.add_argument("--gate", action="store_true", help="exit 1 unless B is within the noise floor")
    add_arguments(parser)


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api
    from kvlab.cli import progress
    from kvlab.core.plan import Plan

    sides: tuple[Plan, Plan] | tuple[str, str]
    if len(options.source) == 2:
        if options.a or options.b:
            raise BadInput("two addresses are compared as they are: --a and --b go with one model")
        sides = (options.source[0], options.source[1])
    elif len(options.source) == 1 and "://" in options.source[0]:
        raise BadInput(f"{options.source[0]} alone is one server; name the addresses of A and of B")
    elif len(options.source) == 1:
        a, b = arms(options)
        sides = (api.plan_ask(options.source[0], a), api.plan_ask(options.source[0], b))
    else:
        raise BadInput(f"{len(options.source)} sources given; name one model with --b, or two addresses")
    with progress.steps() as on_step:
        found = api.quality(
            *sides,
            prompts=options.prompts,
            max_tokens=options.max_tokens,
            concurrency=options.concurrency,
            on_step=on_step,
        )

    def show() -> RenderableType:
        from kvlab.reporting import terminal

        return terminal.quality(found)

    failed = options.gate and found.verdict != "within the noise floor"
    return Answer(found, show, exit_code=1 if failed else 0)


COMMAND = Command("answers of two configurations at temperature 0 against the noise floor", _arguments, _run)
