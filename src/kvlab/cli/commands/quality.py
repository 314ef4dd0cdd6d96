"""`kvlab quality`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.asking import add_arguments, arms
from kvlab.cli.command import Answer, Command, count, positive, tokens
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", nargs="*", help="a model to launch twice (with --b), or the addresses of A and of B")
    parser.add_argument(
        "--a", action="append", default=[], metavar="NAME=VALUE", help="what arm A sets; repeatable (default: nothing)"
    )
    parser.add_argument(
        "--b", action="append", default=[], metavar="NAME=VALUE", help="what arm B sets: kv-dtype=q8_0; repeatable"
    )
    gate = parser.add_argument_group("gate")
    gate.add_argument("--list", action="store_true", help="list the parts of the gate, and which engines can run them")
    gate.add_argument(
        "--parts", metavar="NAME,NAME", action="append", default=[], help="parts to run (default: all that can)"
    )
    gate.add_argument("--prompts", metavar="FILE", help="prompts of the agreement part (default: the 48 shipped)")
    gate.add_argument("--max-tokens", type=count, default=64, help="longest answer of the agreement part (default: 64)")
    gate.add_argument(
        "--lm-eval", metavar="TASK,TASK", action="append", default=[], help="tasks of lm-evaluation-harness"
    )
    gate.add_argument(
        "--longest", type=tokens("--longest"), help="longest text scored or searched, in tokens (default: the context)"
    )
    gate.add_argument("--lab", metavar="FOLDER", help="keep evidence and logs there, and go on after an interruption")
    gate.add_argument(
        "--b-temperature", type=positive, default=0.0, help="sample arm B's answers at this: to check the gate itself"
    )
    gate.add_argument(
        "--concurrency", type=count, default=1, help="requests in flight (default: 1; more add batch noise)"
    )
    gate.add_argument("--gate", action="store_true", help="exit 1 unless the gate's verdict is pass")
    add_arguments(parser)


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api
    from kvlab.cli import progress
    from kvlab.core.plan import Plan

    if options.list:
        return _listed()
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
    elif not options.source:
        raise BadInput("name one model with --b, or the addresses of two servers; --list lists the parts of the gate")
    else:
        raise BadInput(f"{len(options.source)} sources given; name one model with --b, or two addresses")
    with progress.steps() as on_step:
        found = api.quality(
            *sides,
            parts=words(options.parts),
            prompts=options.prompts,
            max_tokens=options.max_tokens,
            concurrency=options.concurrency,
            longest=options.longest,
            lm_eval=words(options.lm_eval),
            b_temperature=options.b_temperature,
            lab=options.lab,
            on_step=on_step,
        )

    def show() -> RenderableType:
        from kvlab.reporting import terminal

        return terminal.quality(found)

    passed = found.gate is not None and found.gate.verdict == "pass"
    return Answer(found, show, exit_code=1 if options.gate and not passed else 0)


def words(given: list[str]) -> tuple[str, ...]:
    """The names in lists with commas or blanks."""
    return tuple(word for text in given for word in text.replace(",", " ").split())


def _listed() -> Answer:
    from kvlab import api

    found = api.quality_parts()

    def show() -> RenderableType:
        from kvlab.reporting import terminal_quality

        return terminal_quality.listed(found)

    return Answer(found, show)


COMMAND = Command("the quality gate: B against A's own noise floor, in several parts", _arguments, _run)
