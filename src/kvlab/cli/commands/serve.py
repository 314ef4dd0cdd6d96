"""`kvlab serve SOURCE`."""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.cli.asking import add_arguments, ask
from kvlab.cli.command import Answer, Command, count
from kvlab.cli.stderr import say
from kvlab.core.errors import BadInput
from kvlab.store import place

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvlab.core.plan import Ask, Plan
    from kvlab.following import Following
    from kvlab.launch import Server
    from kvlab.serving import Serving


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", nargs="?", help="a Hub id, a folder, a config.json or a .gguf file")
    parser.add_argument("--port", type=count, help="where to listen (default: the engine's usual port), on loopback")
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="where the engine's log goes (default: kvlab-ENGINE.log); with --attach: the log to read beside the"
        " server, - for standard input (kubectl logs -f POD | kvlab serve --attach URL --log -)",
    )
    parser.add_argument("--print", action="store_true", help="print the command and start nothing")
    parser.add_argument(
        "--force", action="store_true", help="start though the plan does not fit, or others hold GPU memory"
    )
    parser.add_argument(
        "--strict", action="store_true", help="stop and exit 1 when the log does not agree with the plan"
    )
    parser.add_argument("--attach", metavar="URL", help="check and watch a server that runs already; starts nothing")
    add_arguments(parser)


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api

    if options.source is None and options.attach is None:
        raise BadInput("name a model to serve, or --attach URL to watch a server that runs already")
    if options.attach is not None and options.print:
        raise BadInput("--print shows a command to start, and --attach starts nothing: leave one of them out")
    if options.attach is None and options.log == "-":
        raise BadInput("--log - reads a log from standard input, which goes with --attach URL; name a file to write")
    if options.source is None:
        plan = None
    else:
        asked = ask(options)
        plan = api.plan_ask(options.source, asked if options.attach is not None else _here(asked))
    if options.attach is not None:
        return _attach(options, plan)
    assert plan is not None
    if options.print:
        return _print(options, plan)
    return _serve(options, plan)


def _here(asked: Ask) -> Ask:
    """The request for this machine's GPU, when it names none: it is served here."""
    from kvlab.detect import local_gpus
    from kvlab.preflight import placed_here

    found = placed_here(asked, local_gpus(), _visible())
    if found.gpu != asked.gpu:
        say(f"planned for this machine's {found.gpu}; name another with --gpu")
    return found


def _visible() -> str | None:
    return os.environ.get("CUDA_VISIBLE_DEVICES", os.environ.get("HIP_VISIBLE_DEVICES"))


def _print(options: argparse.Namespace, plan: Plan) -> Answer:
    """The command that would run here, or the plan's own words where the engine is not installed."""
    from msgspec.structs import replace

    from kvlab.core.errors import EngineFailed
    from kvlab.launch import as_run
    from kvlab.preflight import refuse_short

    launch = plan.launch
    try:
        launch = replace(launch, **as_run(plan, options.port))
    except EngineFailed as problem:
        say(f"not what would run here: {problem}")
    try:
        refuse_short(plan)
    except BadInput as problem:
        say(str(problem))
    if launch.files:
        say(f"it reads {', '.join(launch.files)}: kvlab plan --write DIR writes them")

    def show() -> RenderableType:
        from rich.text import Text

        from kvlab.reporting.words import shell

        return Text(shell(launch.argv, launch.env))

    return Answer(launch, show)


def _serve(options: argparse.Namespace, plan: Plan) -> Answer:
    from kvlab.cli import progress
    from kvlab.detect import local_gpus
    from kvlab.preflight import refuse_dirty, refuse_little_memory, refuse_short, seen_by
    from kvlab.serving import make_room, started

    if not options.force:
        refuse_short(plan)
        refuse_little_memory(plan)
        if plan.ask.gpu != "cpu":
            refuse_dirty(seen_by(plan, local_gpus(), _visible()))
    log = Path(f"kvlab-{plan.engine.name}.log" if options.log is None else place(options.log, "log"))
    make_room(plan, log, options.port)
    with ExitStack() as stack:
        with progress.starting(plan, log) as tell:
            serving, server = stack.enter_context(started(plan, log, port=options.port, on_line=tell))
        answer = _answer(serving)
        if options.strict and not serving.check.agrees:
            return answer._replace(exit_code=1)
        return _stay(options, answer, serving, server)


def _attach(options: argparse.Namespace, plan: Plan | None) -> Answer:
    from kvlab.following import Following
    from kvlab.serving import attached

    name = options.engine if plan is None else plan.engine.name
    with ExitStack() as stack:
        log = None
        if options.log is not None:
            log = stack.enter_context(Following("-" if options.log == "-" else place(options.log, "log"), name))
        serving = attached(options.attach, name, plan, log=log, tell=lambda why: say(f"waiting: {why}"))
        answer = _answer(serving)
        if options.strict and not serving.check.agrees:
            return answer._replace(exit_code=1)
        return _stay(options, answer, serving, None, log)


def _answer(serving: Serving) -> Answer:
    def show() -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from kvlab.reporting import terminal

        where = f"\n{serving.url} serves" + (f"; log: {serving.log}" if serving.log else "") + "; Ctrl-C ends this"
        return Group(terminal.check(serving.check), Text(where))

    return Answer(serving, show)


def _stay(
    options: argparse.Namespace, answer: Answer, serving: Serving, server: Server | None, log: Following | None = None
) -> Answer:
    """Says what was found, then a line of status until the server or the person ends it."""
    from kvlab.cli import deliver, progress
    from kvlab.serving import pool_tokens, watch

    deliver(answer, as_json=options.json, output=options.output)
    with progress.status(pool_tokens(serving)) as tell:
        try:
            watch(serving, server, tell, address=options.attach, log=log)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("" if server is not None else f"{serving.url} goes on") from None
    return answer


COMMAND = Command("plan, start, check the log, and stay with a line of status until Ctrl-C", _arguments, _run)
