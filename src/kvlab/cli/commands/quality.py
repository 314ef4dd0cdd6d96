"""`kvlab quality`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.asking import add_arguments, arms
from kvlab.cli.command import Answer, Command, count, positive, tokens, words
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvlab.core.plan import Plan


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", nargs="*", help="a model to launch (with --b), two models, or two addresses")
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
        "--lm-eval",
        metavar="TASK,TASK",
        action="append",
        default=[],
        help="tasks of lm-evaluation-harness (default: none)",
    )
    gate.add_argument("--lm-eval-bin", metavar="PATH", help="the lm_eval program (default: the one on PATH)")
    gate.add_argument("--lm-eval-include", metavar="FOLDER", help="task files of your own (default: none)")
    gate.add_argument("--lm-eval-limit", metavar="N", type=count, help="documents of each task (default: all)")
    gate.add_argument("--lm-eval-chat", action="store_true", help="ask the chat endpoint, with the chat template")
    gate.add_argument(
        "--lm-eval-tokenizer",
        metavar="NAME",
        help="for tasks that score given answers (default: the server's, if it serves one)",
    )
    gate.add_argument(
        "--longest",
        type=tokens("--longest"),
        help="longest text scored or searched, in tokens (default: the context, at most 16384)",
    )
    _items(gate)
    gate.add_argument(
        "--lab",
        metavar="FOLDER",
        help="keep evidence and logs there, and go on after an interruption (default: a temporary one)",
    )
    gate.add_argument(
        "--b-temperature",
        type=positive,
        default=0.0,
        help="sample arm B's answers at this: to check the gate itself (default: 0)",
    )
    gate.add_argument(
        "--concurrency", type=count, default=1, help="requests in flight (default: 1; more add batch noise)"
    )
    gate.add_argument("--gate", action="store_true", help="exit 1 unless the gate's verdict is pass")
    add_arguments(parser)


def _items(gate: argparse._ArgumentGroup) -> None:
    gate.add_argument("--task-items", type=count, default=400, help="tasks with exact answers (default: 400)")
    gate.add_argument(
        "--lengths",
        metavar="N,N",
        action="append",
        default=[],
        help="tokens of the texts that are searched (default: 512, doubled up to --longest)",
    )
    gate.add_argument("--needle-items", type=count, default=400, help="questions about those texts (default: 400)")
    gate.add_argument("--item-seed", type=int, default=0, help="of tasks and texts (default: 0)")
    gate.add_argument(
        "--unisolated-code",
        action="store_true",
        help="run the code that the model writes also where this system cannot isolate it",
    )


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api
    from kvlab.cli import progress
    from kvlab.core.units import parse_tokens

    if options.list:
        return _listed()
    sides = _sides(options)
    with progress.steps() as on_step:
        found = api.quality(
            *sides,
            parts=words(options.parts),
            prompts=options.prompts,
            max_tokens=options.max_tokens,
            concurrency=options.concurrency,
            longest=options.longest,
            lm_eval=words(options.lm_eval),
            lm_eval_bin=options.lm_eval_bin,
            lm_eval_include=options.lm_eval_include,
            lm_eval_limit=options.lm_eval_limit,
            lm_eval_chat=options.lm_eval_chat,
            lm_eval_tokenizer=options.lm_eval_tokenizer,
            task_items=options.task_items,
            lengths=tuple(dict.fromkeys(parse_tokens(word, "--lengths") for word in words(options.lengths))),
            needle_items=options.needle_items,
            item_seed=options.item_seed,
            unisolated_code=options.unisolated_code,
            b_temperature=options.b_temperature,
            lab=options.lab,
            on_step=on_step,
        )

    def show() -> RenderableType:
        from kvlab.reporting import terminal

        return terminal.quality(found)

    passed = found.gate is not None and found.gate.verdict == "pass"
    return Answer(found, show, exit_code=1 if options.gate and not passed else 0)


def _sides(options: argparse.Namespace) -> tuple[Plan, Plan] | tuple[str, str]:
    """Two plans: of one model, or of two; or two addresses."""
    from kvlab import api
    from kvlab.load.address import shown

    given: list[str] = options.source
    if not 1 <= len(given) <= 2:
        raise BadInput(
            f"{len(given) or 'no'} sources given; name one model with --b, two models, or the addresses of two servers"
            " (--list lists the parts of the gate)"
        )
    served = ["://" in source for source in given]
    if all(served):
        if len(given) == 1:
            raise BadInput(f"{shown(given[0])} alone is one server; name the addresses of A and of B")
        if options.a or options.b:
            raise BadInput("two addresses are compared as they are: --a and --b go with a model")
        return given[0], given[1]
    if any(served):
        raise BadInput("a model and an address do not pair; name two models, or the addresses of two servers")
    a, b = arms(options)
    return api.plan_ask(given[0], a), api.plan_ask(given[-1], b)


def _listed() -> Answer:
    from kvlab import api

    found = api.quality_parts()

    def show() -> RenderableType:
        from kvlab.reporting import terminal_quality

        return terminal_quality.listed(found)

    return Answer(found, show)


COMMAND = Command("the quality gate: B against A's own noise floor, in several parts", _arguments, _run)
