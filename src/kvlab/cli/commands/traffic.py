"""`kvlab traffic FILE...`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command, count, positive, tokens
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvlab.core.traffic import Traffic
    from kvlab.options import ModelOptions
    from kvlab.workload.questions import Tell


def _arguments(parser: argparse.ArgumentParser) -> None:
    for add in (_reading, _answers, _caches, _load, _model):
        add(parser)


def _reading(parser: argparse.ArgumentParser) -> None:
    """How the files are read."""
    parser.add_argument(
        "file",
        nargs="+",
        help="traces and logs, plain, .gz or .zst: OpenAI-style requests (JSON lines), gateway CSV, vLLM's log, LMCache"
        " lookups, AIPerf, guidellm, Mooncake, Bailian, Azure, BurstGPT, Parquet",
    )
    parser.add_argument("--format", help="the format (default: as the lines tell)")
    parser.add_argument(
        "--tokenizer",
        metavar="PATH|ID",
        help="of the model, for logs with text: tokenizer.json, folder, GGUF, Hub id (default: none)",
    )
    parser.add_argument("--estimate-tokens", action="store_true", help="without one, take 4 bytes of text for a token")
    parser.add_argument(
        "--block-size",
        type=count,
        help="tokens a block (default: 16 for text and token ids, the trace's own where it has blocks)",
    )
    parser.add_argument(
        "--sample", default="100%", metavar="SHARE", help="of the blocks, to estimate reuse from: 1%% (default: all)"
    )
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="read the files on Ray: HOST:PORT, or local to start one (default: here)"
    )


def _answers(parser: argparse.ArgumentParser) -> None:
    """What is asked of the traffic itself."""
    parser.add_argument(
        "--report", metavar="FOLDER", help="write report.html and the charts there, as PNG (default: no report)"
    )
    parser.add_argument(
        "--fix",
        metavar="FILE",
        help="write the log with its prefix breakers fixed; may end in .gz or .zst (default: nothing)",
    )
    parser.add_argument("--percentile", type=positive, default=99.0, help="for the context limit (default: 99)")
    parser.add_argument(
        "--context", type=tokens("--context"), help="longest request to reserve for (default: the next power of two)"
    )
    parser.add_argument("--last-half", action="store_true", help="measure reuse on the second half of the requests")


def _caches(parser: argparse.ArgumentParser) -> None:
    """The caches that it is replayed on."""
    parser.add_argument(
        "--capacity",
        metavar="N,N",
        help="cache sizes on the curve, the pool's first: blocks, or bytes as in 80GiB with --model (default: none)",
    )
    parser.add_argument(
        "--policy", metavar="NAME,NAME", help="policies at each --capacity: lru, fifo, lfu, belady (default: the curve)"
    )
    parser.add_argument(
        "--tiers",
        metavar="NAME:N,..",
        help="a chain of tiers, as in gpu:5000,cpu:200GiB@50GB/s,ssd:1TiB@6GB/s (default: none)",
    )
    parser.add_argument("--inclusive", action="store_true", help="a lower tier also holds what those above it hold")
    parser.add_argument(
        "--prefill-speed",
        type=positive,
        metavar="TOKENS/S",
        help="of one request: for --pool, for the requests at once, and for the TTFT that --tiers save (default: none)",
    )
    parser.add_argument(
        "--replicas",
        type=count,
        metavar="N",
        help="replicas of the first --capacity each: own, shared, routed caches (default: one)",
    )


def _load(parser: argparse.ArgumentParser) -> None:
    """The engine that is simulated under it."""
    parser.add_argument(
        "--pool",
        metavar="N,N",
        help="pools to simulate under this load: blocks, or bytes as in 40GiB with --model (default: none)",
    )
    parser.add_argument(
        "--decode-step",
        type=positive,
        metavar="MS",
        help="what a step of the engine takes beside its prefill: for --pool and the requests at once (default: none)",
    )
    parser.add_argument(
        "--max-num-seqs", type=count, help="requests at a time in the simulation (default: vLLM 128, SGLang 2,048)"
    )
    parser.add_argument(
        "--max-num-batched-tokens",
        type=count,
        help="tokens a step in the simulation (default: vLLM 2,048, SGLang 8,192)",
    )


def _model(parser: argparse.ArgumentParser) -> None:
    """Whose cache turns tokens into bytes."""
    parser.add_argument(
        "--model", metavar="SOURCE", help="a model, to give capacities in bytes of its cache on one GPU (default: none)"
    )
    parser.add_argument(
        "--plan",
        metavar="FILE",
        help="the server's plan, by kvlab plan --json: its pool and speed, for the requests at once (default: none)",
    )
    parser.add_argument("--kv-dtype", help="cache dtype of that model, in the engine's words (default: its own)")
    parser.add_argument(
        "--engine", help="whose cache that is, and whose scheduler --pool simulates: vllm or sglang (default: vllm)"
    )


def _run(options: argparse.Namespace) -> Answer:
    from kvlab.cli import progress

    if options.model is None and options.kv_dtype:
        raise BadInput("--kv-dtype says how the cache of --model is stored: give --model SOURCE")
    if options.model is None and options.engine and not options.pool:
        raise BadInput("--engine is about the cache of --model, or about --pool: give one of them")
    with progress.doing() as tell:
        found = _found(options, tell)

    def show() -> RenderableType:
        from kvlab.reporting.terminal_traffic import traffic

        if options.report is None:
            return traffic(found)
        from pathlib import Path

        from rich.console import Group
        from rich.text import Text

        return Group(traffic(found), Text(f"\nreport: {Path(options.report) / 'report.html'}"))

    return Answer(found, show)


def _found(options: argparse.Namespace, tell: Tell) -> Traffic:
    from kvlab import api

    return api.traffic(
        *options.file,
        form=options.format,
        report=options.report,
        tell=tell,
        percentile=options.percentile,
        capacities=_capacities(options.capacity),
        policies=_words(options.policy),
        tiers=_words(options.tiers),
        inclusive=options.inclusive,
        prefill_tokens_per_second=options.prefill_speed,
        pools=_capacities(options.pool),
        decode_step_ms=options.decode_step,
        engine=options.engine if options.pool else None,
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        replicas=options.replicas,
        last_half=options.last_half,
        tokenizer=options.tokenizer,
        estimate_tokens=options.estimate_tokens,
        block_size=options.block_size,
        fix=options.fix,
        sample=options.sample,
        ray=options.ray,
        context=options.context,
        plan=options.plan,
        **_of_model(options),
    )


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",")) if text is not None else ()


def _capacities(text: str | None) -> tuple[int | str, ...]:
    return tuple(int(word) if word.isdecimal() else word for word in _words(text))


def _of_model(options: argparse.Namespace) -> ModelOptions:
    """What the model says, where one is given."""
    from kvlab.api import plan_ask
    from kvlab.core.plan import Ask

    if options.model is None:
        return {}
    asked = Ask(engine=options.engine or "vllm", any_engine=options.engine is None, kv_dtype=options.kv_dtype)
    plan = plan_ask(options.model, asked)
    return {"bytes_per_token": plan.kv.bytes_per_token, "model_context": plan.kv.context}


COMMAND = Command("lengths, context limit, prefix reuse and cache size from a trace of real traffic", _arguments, _run)
