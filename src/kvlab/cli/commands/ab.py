"""`kvlab ab SOURCE`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.cli import loading
from kvlab.cli.asking import add_arguments, arms
from kvlab.cli.command import Answer, Command, count, tokens, words
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvlab.core.record import Load
    from kvlab.settings import Settings

_RECORDED = ("sharegpt", "log", "trace")
"""Data sets that state a length for every answer."""


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
    loading.add_data(load, loading.AB)
    load.add_argument(
        "--concurrency", type=count, help=f"closed loop: requests in flight (default: {loading.CONCURRENCY})"
    )
    loading.add_open_loop(load)
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
    from kvlab.request import suited
    from kvlab.settings import MOST_BLOCKS, Settings

    if options.source is None:
        raise BadInput("ab needs a source (a Hub id, a folder, a config.json or a .gguf file), or --resume LAB")
    kind = "gguf" if options.source.lower().endswith(".gguf") else ""
    a, b = (suited(arm, kind) for arm in arms(options))
    load = _load(options)
    most = min(load.concurrency or 0, load.prompts)
    return Settings(
        title=f"{options.source}: A against B on {a.engine}",
        source=options.source,
        a=a,
        b=b,
        load=load,
        dataset=loading.dataset(options, loading.AB),
        warm_up=max(4, most) if options.warm_up is None else options.warm_up,
        quality_prompts=options.quality_prompts,
        quality_tokens=None if options.no_quality else options.quality_tokens,
        prefix_rounds=None if options.no_prefix else 4,
        prefix_tokens=options.prefix_tokens,
        parts=words([options.parts]),
        blocks=options.blocks or (MOST_BLOCKS if options.sequential else 1),
        sequential=options.sequential,
        against_itself=options.against_itself,
    )


def _load(options: argparse.Namespace) -> Load:
    """What is sent, for the record. Raises BadInput where it cannot be sent."""
    from kvlab.core.record import Load
    from kvlab.measuring import load_spec

    timed = options.dataset in ("log", "trace") and options.rate is None and options.concurrency is None
    closed = options.rate is None and not timed
    file, usual = options.dataset_path, loading.AB
    load = Load(
        dataset=(options.dataset or "random") if file is None else Path(file).name,
        prompts=options.num_prompts or usual.prompts,
        input_tokens=options.input_tokens if file is None else None,
        output_tokens=options.output_tokens or (None if options.dataset in _RECORDED else usual.output_tokens),
        concurrency=options.concurrency or loading.CONCURRENCY if closed else options.concurrency,
        rate=options.rate,
        burstiness=None if options.burstiness == float("inf") else options.burstiness,
        endpoint=options.endpoint,
        turns=options.turns,
        seed=options.seed,
    )
    load_spec(load)
    return load


COMMAND = Command("two configurations of one engine: A B B A, paired prompts, intervals, a verdict", _arguments, _run)
