"""`kvlab bench URL`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.cli import loading, runner
from kvlab.cli.command import Answer, Command

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvlab.load.bench import BenchResult, BenchSpec


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", help="address of an OpenAI-compatible server")
    parser.add_argument("--engine", help="whose metrics and tokenizer to use (default: as the server says)")
    parser.add_argument("--model", help="the name that the server knows the model by (default: the first it lists)")
    loading.add_data(parser, loading.BENCH)
    loading.add_arrivals(parser)
    loading.add_client(parser)
    parser.add_argument(
        "--goodput",
        nargs="+",
        metavar="NAME:MS",
        help="objectives in ms (ttft, tpot, e2el), as in ttft:500 tpot:50; counts what meets all (default: none)",
    )
    parser.add_argument(
        "--percentiles",
        type=_percentiles,
        default=(99.0,),
        metavar="P,P",
        help="percentiles of every latency in the result (default: 99)",
    )
    runner.arguments(parser)


def _percentiles(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers, as in 50,90,99") from None
    if not all(0 <= value <= 100 for value in found):
        raise argparse.ArgumentTypeError(f"{text} holds one that is not between 0 and 100")
    return found


def _run(options: argparse.Namespace) -> Answer:
    if options.runner is not None:
        return runner.run(options)
    from kvlab import api
    from kvlab.cli import progress
    from kvlab.core.objectives import objectives
    from kvlab.load.bench import BenchSpec

    concurrencies = options.concurrency or ()
    spec = BenchSpec(
        dataset=loading.dataset(options, loading.BENCH),
        load=loading.load(options, concurrencies[0] if concurrencies else None),
        num_prompts=loading.prompts(options, loading.BENCH),
        engine=options.engine,
        tokenizer=options.tokenizer,
        warm_up=options.warm_up,
        percentiles=options.percentiles,
        objectives=objectives(options.goodput or ()),
    )
    output = Path(options.output or time.strftime("kvlab-bench-%Y%m%d-%H%M%S.json"))
    options.output = None  # written below, with a row per request beside it
    with progress.load() as tell:
        if len(concurrencies) < 2:
            result = api.bench(options.url, spec, output=output, progress=tell)
            return Answer(result.metrics, lambda: _shown(result, output))
        rungs = api.bench_ladder(options.url, spec, concurrencies, output=output, progress=tell)
    return _ladder(spec, concurrencies, rungs, output)


def _shown(result: BenchResult, output: Path) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from kvlab.core.result import rows_beside
    from kvlab.reporting import terminal

    numbers = {name: float(v) for name, v in result.metrics.items() if isinstance(v, int | float)}
    written = Text(f"\nresult: {output}   a row per request: {rows_beside(output)}")
    return Group(terminal.bench(numbers, result.pool, result.remarks), written)


def _ladder(spec: BenchSpec, concurrencies: tuple[int, ...], results: tuple[BenchResult, ...], output: Path) -> Answer:
    from kvlab.load.ladder import rung_file

    steps = [
        {"concurrency": number, "file": str(rung_file(output, number)), "result": result.metrics}
        for number, result in zip(concurrencies, results, strict=True)
    ]

    def show() -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        shown: list[RenderableType] = []
        for number, result in zip(concurrencies, results, strict=True):
            shown += [Text(f"\n{number} at once\n", style="bold"), _shown(result, rung_file(output, number))]
        return Group(*shown)

    return Answer({"schema": "kvlab/bench-ladder@1", "steps": steps}, show)


COMMAND = Command("load on a server: TTFT, TPOT, ITL, throughput, and what its metrics said", _arguments, _run)
