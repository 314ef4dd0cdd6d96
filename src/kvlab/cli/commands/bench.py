"""`kvlab bench URL`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command, count, positive, tokens
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvlab.load.datasets import Dataset


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", help="address of an OpenAI-compatible server")
    parser.add_argument("--engine", help="whose metrics and tokenizer to use (default: as the server says)")
    parser.add_argument("--model", help="the name that the server knows the model by (default: the first it lists)")
    parser.add_argument(
        "--endpoint",
        choices=("completions", "chat"),
        default="completions",
        help="/v1/completions, or /v1/chat/completions with the chat template (default: completions)",
    )
    parser.add_argument(
        "--dataset",
        choices=("random", "prompts", "shared-prefix"),
        default="random",
        help="what to send (default: random)",
    )
    parser.add_argument("--prompts", metavar="FILE", help="the prompts of --dataset prompts (default: none)")
    parser.add_argument("--num-prompts", type=count, help="requests (default: 64, or every prompt of the file)")
    parser.add_argument(
        "--input-tokens",
        type=tokens("--input-tokens"),
        default=1024,
        help="tokens of each prompt, a shared prefix included; a file has its own (default: 1024)",
    )
    parser.add_argument(
        "--output-tokens",
        type=tokens("--output-tokens"),
        default=128,
        help="tokens of each answer, at most where it may end by itself (default: 128)",
    )
    parser.add_argument(
        "--prefix-tokens",
        type=tokens("--prefix-tokens"),
        default=512,
        help="tokens at the start of the prompts that --dataset shared-prefix repeats (default: 512)",
    )
    parser.add_argument("--prefixes", type=count, default=1, help="different shared prefixes (default: 1)")
    parser.add_argument("--concurrency", type=count, help="closed loop: requests in flight (default: 8)")
    parser.add_argument("--rate", type=positive, help="open loop: requests a second, Poisson (default: closed loop)")
    parser.add_argument("--warm-up", type=int, default=4, help="requests sent first and discarded (default: 4)")
    parser.add_argument("--no-ignore-eos", action="store_true", help="let the model end its answers")
    parser.add_argument("--timeout", type=positive, default=600.0, help="seconds a request may take (default: 600)")
    parser.add_argument("--seed", type=int, default=0, help="of prompts and arrivals (default: 0)")


def _dataset(options: argparse.Namespace) -> Dataset:
    from kvlab.load.datasets import PromptsFile, RandomTokens, SharedPrefix

    if options.dataset == "prompts" or options.prompts is not None:
        if options.prompts is None:
            raise BadInput("--dataset prompts needs --prompts FILE")
        return PromptsFile(path=options.prompts, output_tokens=options.output_tokens)
    if options.dataset == "shared-prefix":
        suffix = options.input_tokens - options.prefix_tokens
        if suffix < 1:
            raise BadInput(
                f"--prefix-tokens {options.prefix_tokens} must be less than --input-tokens {options.input_tokens}"
            )
        return SharedPrefix(
            prefix_tokens=options.prefix_tokens,
            suffix_tokens=suffix,
            output_tokens=options.output_tokens,
            prefixes=options.prefixes,
        )
    return RandomTokens(input_tokens=options.input_tokens, output_tokens=options.output_tokens)


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api
    from kvlab.cli import progress
    from kvlab.load.bench import BenchSpec
    from kvlab.load.spec import LoadSpec

    dataset = _dataset(options)
    from_file = options.prompts is not None
    spec = BenchSpec(
        dataset=dataset,
        load=LoadSpec(
            concurrency=options.concurrency if options.rate or options.concurrency else 8,
            rate=options.rate,
            seed=options.seed,
            endpoint=options.endpoint,
            model=options.model,
            ignore_eos=not options.no_ignore_eos,
            timeout=options.timeout,
        ),
        num_prompts=options.num_prompts or (None if from_file else 64),
        engine=options.engine,
        warm_up=options.warm_up,
    )
    output = Path(options.output or time.strftime("kvlab-bench-%Y%m%d-%H%M%S.json"))
    with progress.load() as tell:
        result = api.bench(options.url, spec, output=output, progress=tell)
    options.output = None  # written above, with a row per request beside it

    def show() -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from kvlab.reporting import terminal

        numbers = {name: float(v) for name, v in result.metrics.items() if isinstance(v, int | float)}
        written = Text(f"\nresult: {output}   a row per request: {output.with_suffix('.requests.jsonl')}")
        return Group(terminal.bench(numbers, result.pool, result.remarks), written)

    return Answer(result.metrics, show)


COMMAND = Command("load on a server: TTFT, TPOT, ITL, throughput, and what its metrics said", _arguments, _run)
