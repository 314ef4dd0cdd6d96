"""`kvlab bench --runner`: its options, and what it shows."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.cli import loading
from kvlab.cli.command import Answer
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType


_SHARED = {"url", "runner", "runner_bin", "tokenizer", "model", "endpoint", "num_prompts", "input_tokens",
           "output_tokens", "concurrency", "rate", "seed", "warm_up", "no_ignore_eos"}  # fmt: skip
"""Options that every load generator understands."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options that belong to another load generator."""
    parser.add_argument(
        "--runner",
        metavar="NAME",
        help="let another load generator measure and read its file: vllm, sglang, guidellm, aiperf (default: kvlab)",
    )
    parser.add_argument("--runner-bin", metavar="PATH", help="where it is (default: on PATH)")
    parser.add_argument(
        "--tokenizer",
        metavar="PATH|ID",
        help="to make prompts with: tokenizer.json, folder, GGUF, Hub id (default: the engine's; --runner: the model)",
    )
    parser.set_defaults(unasked=vars(parser.parse_args(["http://127.0.0.1"])))


def run(options: argparse.Namespace) -> Answer:
    """Measures with the runner that was asked for. Raises BadInput for what the runners do not share with kvlab."""
    from kvlab import external, store
    from kvlab.cli import progress
    from kvlab.core.runner import Task
    from kvlab.runners import runner

    found = runner(options.runner)
    _only_shared(options, found.title)
    concurrencies = options.concurrency or ((loading.CONCURRENCY,) if options.rate is None else ())
    output = Path(options.output or time.strftime("kvlab-bench-%Y%m%d-%H%M%S.json"))
    store.check_target(output)
    external.find(found, options.runner_bin)  # before the server is asked
    url, model = external.aim(options.url, options.model)
    task = Task(
        url=url,
        model=model,
        tokenizer=options.tokenizer or model,
        endpoint=options.endpoint,
        num_prompts=options.num_prompts or loading.BENCH.prompts,
        input_tokens=options.input_tokens,
        output_tokens=options.output_tokens or loading.BENCH.output_tokens,
        concurrency=concurrencies[0] if concurrencies else None,
        rate=options.rate,
        seed=options.seed,
        warm_up=options.warm_up,
        ignore_eos=not options.no_ignore_eos,
    )
    with progress.counted(f"{found.title}: requests") as tell:
        measured = external.measure(found, task, program=options.runner_bin, on_count=tell)
    document = external.save(measured, output)
    options.output = None  # written above, with the runner's own file beside it

    def show() -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from kvlab.core.measure import PoolUse
        from kvlab.reporting import terminal

        named = " ".join(filter(None, (found.title, measured.version)))
        written = Text(f"\nmeasured by {named}; result: {output}")
        return Group(terminal.bench(measured.result.metrics, PoolUse(), ()), written)

    return Answer(document, show)


def _only_shared(options: argparse.Namespace, title: str) -> None:
    """Raises BadInput for an option that was given and that not every load generator has."""
    usual = options.unasked
    asked = [name for name, value in vars(options).items() if name in usual and value != usual[name]]
    other = [name for name in asked if name not in _SHARED and name != "unasked"]
    if options.concurrency and len(options.concurrency) > 1:
        other.append("concurrency")
    if other:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in other)
        several = " of several values" if other == ["concurrency"] else ""
        raise BadInput(f"{names}{several} is kvlab's own and not passed on to {title}; leave it out, or --runner")
