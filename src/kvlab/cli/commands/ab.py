"""`kvlab ab SOURCE`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.cli import loading
from kvlab.cli.asking import add_arguments, arms
from kvlab.cli.command import Answer, Command, count, positive, tokens, words
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvlab.settings import Settings


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", nargs="?", help="a Hub id, a folder, a config.json or a .gguf file")
    parser.add_argument(
        "--resume",
        metavar="LAB",
        help="go on with the interrupted experiment in LAB, as it was begun (default: a new one)",
    )
    parser.add_argument(
        "--a", action="append", default=[], metavar="NAME=VALUE", help="what arm A sets; repeatable (default: nothing)"
    )
    parser.add_argument(
        "--b", action="append", default=[], metavar="NAME=VALUE", help="what arm B sets: kv-dtype=q8_0; repeatable"
    )
    parser.add_argument("--lab", default="kvlab-lab", help="folder of the experiment (default: kvlab-lab)")
    parser.add_argument("--gate", action="store_true", help="exit 1 when B is worse")
    parser.add_argument(
        "--blocks",
        type=count,
        help="blocks of four runs, A B B A then B A A B (default: 1; with --sequential at most 8)",
    )
    parser.add_argument(
        "--sequential",
        action="store_true",
        help="look after every block and stop as soon as the verdict is settled; intervals allow for the looking",
    )
    parser.add_argument(
        "--against-itself", action="store_true", help="arm B is arm A again: the noise of this machine under this load"
    )
    _add_load(parser.add_argument_group("load"))
    _add_gates(parser.add_argument_group("quality and prefix"))
    add_arguments(parser)


def _add_load(load: argparse._ArgumentGroup) -> None:
    load.add_argument(
        "--dataset", choices=loading.SETS, help="what to send (default: random, or prompts with --prompts)"
    )
    load.add_argument(
        "--prompts",
        "--dataset-path",
        dest="dataset_path",
        metavar="FILE",
        help="the file of --dataset prompts, sharegpt, log or trace (default: none)",
    )
    load.add_argument("--format", help="the format of a log or trace (default: as its lines tell)")
    load.add_argument(
        "--shared-tokens",
        type=tokens("--shared-tokens"),
        default=256,
        help="tokens at the start of the prompts that --dataset shared-prefix repeats (default: 256)",
    )
    load.add_argument("--prefixes", type=count, default=1, help="different shared prefixes (default: 1)")
    load.add_argument(
        "--scale-time", type=positive, default=1.0, metavar="X", help="times a trace's arrival times (default: 1)"
    )
    load.add_argument(
        "--scale-tokens", type=positive, default=1.0, metavar="X", help="times a trace's lengths (default: 1)"
    )
    load.add_argument("--num-prompts", type=count, default=32, help="requests in every run (default: 32)")
    load.add_argument(
        "--input-tokens", type=tokens("--input-tokens"), default=512, help="of each prompt (default: 512)"
    )
    load.add_argument(
        "--output-tokens", type=tokens("--output-tokens"), default=64, help="of each answer (default: 64)"
    )
    load.add_argument("--concurrency", type=count, help="closed loop: requests in flight (default: 8)")
    load.add_argument(
        "--rate", type=positive, help="open loop: requests a second (default: closed loop, a trace's times)"
    )
    load.add_argument("--seed", type=int, default=0, help="of prompts and arrivals (default: 0)")
    load.add_argument(
        "--warm-up",
        type=int,
        help="requests sent first in every run and never counted (default: as many as are in flight, at least 4)",
    )


def _add_gates(gates: argparse._ArgumentGroup) -> None:
    gates.add_argument(
        "--parts",
        default="agreement",
        help="parts of the quality gate, with commas (default: agreement; see quality --list)",
    )
    gates.add_argument("--no-quality", action="store_true", help="leave the quality gate out")
    gates.add_argument("--quality-prompts", metavar="FILE", help="prompts of the gate (default: the 48 shipped)")
    gates.add_argument("--quality-tokens", type=count, default=64, help="longest answer (default: 64)")
    gates.add_argument("--no-prefix", action="store_true", help="leave the prefix experiment out")
    gates.add_argument(
        "--prefix-tokens",
        type=tokens("--prefix-tokens"),
        default=700,
        help="length of the shared system prompt, or what a request leaves room for (default: 700)",
    )


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api, resuming
    from kvlab.cli import progress
    from kvlab.cli.stderr import say

    settings = _settings(options) if options.resume is None else _resumed(options)
    lab = Path(options.resume or options.lab)
    if told := resuming.told(lab):
        say(told)
    with progress.resumable(lab), progress.steps() as on_step:
        record = api.ab(settings, lab, command=("kvlab", *sys.argv[1:]), on_step=on_step)
    found = record.ab

    def show() -> RenderableType:
        from kvlab.cli.endings import finished

        return finished(record, lab)

    worse = options.gate and found is not None and found.verdict.code == "worse"
    return Answer(found, show, exit_code=1 if worse else 0)


def _resumed(options: argparse.Namespace) -> Settings:
    from kvlab.resuming import settings_of

    if options.source is not None or options.a or options.b:
        raise BadInput("--resume goes on with what was begun: leave the source, --a and --b out")
    return settings_of(Path(options.resume))


def _settings(options: argparse.Namespace) -> Settings:
    from kvlab.core.record import Load
    from kvlab.request import suited
    from kvlab.settings import MOST_BLOCKS, Settings

    if options.source is None:
        raise BadInput("ab needs a source (a Hub id, a folder, a config.json or a .gguf file), or --resume LAB")
    timed = options.dataset in ("log", "trace") and options.rate is None and options.concurrency is None
    in_flight = None if timed else options.concurrency if options.rate or options.concurrency else 8
    kind = "gguf" if options.source.lower().endswith(".gguf") else ""
    a, b = (suited(arm, kind) for arm in arms(options))
    if options.dataset == "shared-prefix" and options.shared_tokens >= options.input_tokens:
        raise BadInput(
            f"--shared-tokens {options.shared_tokens} must be less than --input-tokens {options.input_tokens}"
        )
    wanted = {**vars(options), "prefix_tokens": options.shared_tokens, "turns": "first", "history": "server"}
    dataset = loading.dataset(argparse.Namespace(**wanted))
    file = options.dataset_path
    return Settings(
        title=f"{options.source}: A against B on {a.engine}",
        source=options.source,
        a=a,
        b=b,
        load=Load(
            dataset=(options.dataset or "random") if file is None else Path(file).name,
            prompts=options.num_prompts,
            input_tokens=options.input_tokens if file is None else None,
            output_tokens=options.output_tokens,
            concurrency=in_flight,
            rate=options.rate,
            seed=options.seed,
        ),
        dataset=dataset,
        warm_up=max(4, in_flight or 0) if options.warm_up is None else options.warm_up,
        quality_prompts=options.quality_prompts,
        quality_tokens=None if options.no_quality else options.quality_tokens,
        prefix_rounds=None if options.no_prefix else 4,
        prefix_tokens=options.prefix_tokens,
        parts=words([options.parts]),
        blocks=options.blocks or (MOST_BLOCKS if options.sequential else 1),
        sequential=options.sequential,
        against_itself=options.against_itself,
    )


COMMAND = Command("two configurations of one engine: A B B A, paired prompts, intervals, a verdict", _arguments, _run)
