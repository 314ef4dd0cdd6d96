"""`kvlab prefix URL`."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command, count, positive, tokens

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvlab.core.quality import Prefix

_FURTHER = ("lengths", "block_size", "salts", "churn")
_FIRST = "prefix-lengths.png"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", help="address of a running server")
    parser.add_argument("--engine", help="whose counters to read (default: the one that the server says it is)")
    parser.add_argument("--rounds", type=count, default=4, help="fresh prefixes, of each length (default: 4)")
    parser.add_argument("--warm", type=count, default=3, help="further requests with each prefix (default: 3)")
    parser.add_argument(
        "--prefix-tokens",
        type=_lengths,
        default=(),
        metavar="N[,N...]",
        help="length of the shared system prompt (default: about 8,280, or less where the server states its limit);"
        " several: measure each of them",
    )
    parser.add_argument(
        "--lengths", action="store_true", help="cold and warm over several lengths: what caching saves, from where on"
    )
    parser.add_argument("--block-size", action="store_true", help="find the block size from where hits begin")
    parser.add_argument("--salts", action="store_true", help="whether cache_salt keeps tenants' prefixes apart")
    parser.add_argument(
        "--churn", action="store_true", help="more and more prefixes, until the cache no longer holds them"
    )
    parser.add_argument("--all", action="store_true", help="all of these")
    parser.add_argument(
        "--plan", metavar="FILE", help="whose pool and block size are looked for (default: what the server states)"
    )
    parser.add_argument(
        "--churn-tokens", type=tokens("--churn-tokens"), help="length of each prefix of --churn (default: 1/12 pool)"
    )
    parser.add_argument("--most-requests", type=count, default=400, help="bound of --churn (default: 400)")
    parser.add_argument("--most-seconds", type=positive, default=300.0, help="bound of --churn (default: 300)")
    parser.add_argument(
        "--charts", metavar="FOLDER", help="write the curves into this folder, as PNG (default: nowhere)"
    )


def _lengths(text: str) -> tuple[int, ...]:
    """Several lengths, separated by commas."""
    one = tokens("--prefix-tokens")
    return tuple(one(part.strip()) for part in text.split(","))


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api
    from kvlab.cli import progress
    from kvlab.settings import Step

    if options.charts is not None:
        from kvlab.store import check_target

        check_target(os.path.join(options.charts, _FIRST), "--charts")
    asked = {name: options.all or getattr(options, name) for name in _FURTHER}
    asked["lengths"] |= len(options.prefix_tokens) > 1
    parts = ["cold and warm", *(name.replace("_", " ") for name, wanted in asked.items() if wanted)]
    with progress.steps() as show:

        def tell(part: str, done: int, total: int) -> None:
            number = parts.index(part) if part in parts else 0
            show(Step(number, len(parts), f"requests with shared prefixes: {part}", done, total))

        found = api.prefix(
            options.url,
            engine=options.engine,
            rounds=options.rounds,
            warm=options.warm,
            prefix_tokens=options.prefix_tokens,
            lengths=asked["lengths"],
            block_size=asked["block_size"],
            salts=asked["salts"],
            churn=asked["churn"],
            plan=options.plan,
            churn_tokens=options.churn_tokens,
            most_requests=options.most_requests,
            most_seconds=options.most_seconds,
            on_part=tell,
        )

    if options.charts is not None:
        _draw(found, options.charts)

    def view() -> RenderableType:
        from kvlab.reporting import terminal_prefix

        return terminal_prefix.prefix(found)

    return Answer(found, view)


def _draw(found: Prefix, folder: str) -> None:
    from kvlab.reporting.charts import prefix
    from kvlab.store import write_atomic

    for drawing in prefix.curves(found):
        write_atomic(os.path.join(folder, f"{drawing.name}.png"), drawing.png())


COMMAND = Command("time to first token with a cold and a warm prefix, and the engine's hit counts", _arguments, _run)
