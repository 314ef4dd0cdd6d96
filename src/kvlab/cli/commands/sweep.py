"""`kvlab sweep URL` and `kvlab sweep SOURCE`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.cli.asking import add_arguments, ask
from kvlab.cli.command import Answer, Command, count, positive, refuse_bare_address, requests, tokens
from kvlab.cli.loading import add_tls
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvlab.core.bracket import Search
    from kvlab.core.plan import Ask
    from kvlab.sweeping import SweepSettings


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="address of a running server, or a model to launch (Hub id, folder, .gguf)")
    parser.add_argument("--lab", default="kvlab-sweep", help="folder of the sweep (default: kvlab-sweep)")
    parser.add_argument(
        "--report", metavar="FOLDER", help="write report.html and the charts there (default: no report)"
    )
    parser.add_argument("--plan", metavar="FILE", help="a plan to compare a running server with (default: none)")
    _add_search(parser)
    load = parser.add_argument_group("load")
    load.add_argument(
        "--input-tokens", type=tokens("--input-tokens"), default=512, help="tokens of each prompt (default: 512)"
    )
    load.add_argument(
        "--output-tokens", type=tokens("--output-tokens"), default=64, help="tokens of each answer (default: 64)"
    )
    load.add_argument(
        "--endpoint",
        choices=("completions", "chat"),
        default="completions",
        help="/v1/completions, or /v1/chat/completions with the chat template (default: completions)",
    )
    load.add_argument("--model", help="the name that the server knows the model by (default: the first it lists)")
    load.add_argument(
        "--tokenizer",
        metavar="PATH|ID",
        help="to make prompts with: tokenizer.json, folder, GGUF, Hub id (default: the engine's own)",
    )
    load.add_argument("--warm-up", type=int, default=4, help="requests before each look, not counted (default: 4)")
    load.add_argument("--timeout", type=positive, default=600.0, help="seconds a request may take (default: 600)")
    load.add_argument("--seed", type=int, default=0, help="of prompts and arrivals (default: 0)")
    add_tls(load)
    cost = parser.add_argument_group("cost")
    cost.add_argument("--price-per-hour", type=positive, help="dollars an hour of the whole server (default: no cost)")
    cost.add_argument(
        "--output-weight",
        type=positive,
        default=1.0,
        help="price of an output token in prompt tokens, where both share the price (default: 1)",
    )
    add_arguments(parser)


def _add_search(parser: argparse.ArgumentParser) -> None:
    search = parser.add_argument_group("search")
    search.add_argument(
        "--over",
        choices=("concurrency", "rate"),
        default="concurrency",
        help="requests in flight, or requests a second that come at random (default: concurrency)",
    )
    search.add_argument("--from", dest="low", type=positive, default=1.0, help="the lowest load (default: 1)")
    search.add_argument("--to", dest="high", type=positive, help="the highest load (default: 256)")
    search.add_argument("--points", metavar="N,N", help="these loads and no others: 1,2,4,8 (default: adaptive)")
    search.add_argument(
        "--slo",
        action="append",
        default=[],
        metavar="NAME:MS",
        help="objective: ttft:500, tpot:50 or e2el:2000; repeatable (default: none, only the knee is looked for)",
    )
    search.add_argument(
        "--target", type=positive, default=0.95, help="share of the requests that must meet them (default: 0.95)"
    )
    search.add_argument("--num-prompts", type=requests, default=128, help="requests of a first look (default: 128)")
    search.add_argument(
        "--most-prompts",
        type=requests,
        help="requests at one load, when the first do not settle it (default: 4 x as many)",
    )
    search.add_argument("--precision", type=positive, default=0.1, help="width of the bracket, a share (default: 0.1)")
    search.add_argument("--most-points", type=count, default=16, help="loads to try at most (default: 16)")


def _search(options: argparse.Namespace) -> Search:
    from kvlab.core.bracket import Search

    return Search(
        over=options.over,
        low=options.low,
        high=max(256.0, options.low) if options.high is None else options.high,
        points=_points(options.points),
        requests=options.num_prompts,
        most_requests=options.most_prompts or 4 * options.num_prompts,
        target=options.target,
        precision=options.precision,
        most_points=options.most_points,
    )


def _points(text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        raise BadInput(f"--points {text!r} is not a list of numbers; write 1,2,4,8") from None


def _launched(options: argparse.Namespace) -> Ask | None:
    """How to launch the source; None for an address, which no plan's argument can change."""
    if not options.source.startswith(("http://", "https://")):
        refuse_bare_address(options.source)
        if options.plan is not None:
            raise BadInput("--plan is for a running server; what is launched is planned here, with the same arguments")
        if options.ca_file is not None or options.insecure:
            raise BadInput("--ca-file and --insecure are for a running https server; what is launched has neither")
        return ask(options)
    from msgspec.structs import replace

    from kvlab.core.plan import Ask

    given = ask(options)
    if replace(given, engine=Ask().engine, any_engine=False) != Ask():
        raise BadInput("a running server is as it was started: leave out what is for launching, but --engine")
    return None


def _settings(options: argparse.Namespace) -> SweepSettings:
    from kvlab.core.objectives import objectives
    from kvlab.load.spec import Tls
    from kvlab.request import suited
    from kvlab.sweeping import SweepSettings

    launched = _launched(options)
    if launched is not None:
        launched = suited(launched, "gguf" if options.source.lower().endswith(".gguf") else "")
    return SweepSettings(
        source=options.source,
        ask=launched,
        search=_search(options),
        objectives=objectives(options.slo),
        input_tokens=options.input_tokens,
        output_tokens=options.output_tokens,
        endpoint=options.endpoint,
        model=options.model,
        engine=options.engine if launched is None else None,
        tokenizer=options.tokenizer,
        timeout=options.timeout,
        tls=Tls(ca_file=options.ca_file, insecure=options.insecure),
        warm_up=options.warm_up,
        seed=options.seed,
        price_per_hour=options.price_per_hour,
        output_weight=options.output_weight,
    )


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api
    from kvlab.cli import progress

    settings, lab = _settings(options), Path(options.lab)
    with progress.resumable(lab), progress.steps() as on_step:
        found = api.sweep(settings, lab, plan=options.plan, report=options.report, on_step=on_step)

    def show() -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from kvlab.reporting import terminal_sweep

        report = "" if options.report is None else f"report: {Path(options.report) / 'report.html'}   "
        return Group(terminal_sweep.sweep(found), Text(f"\n{report}looks: {lab}/"))

    return Answer(found, show)


COMMAND = Command("load until objectives fail: safe load, knee, goodput, dollars per million tokens", _arguments, _run)
