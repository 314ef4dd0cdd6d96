"""`kvlab prefix URL`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command, count, tokens

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", help="address of a running server")
    parser.add_argument("--engine", help="whose counters to read (default: only the answers' own usage)")
    parser.add_argument("--rounds", type=count, default=4, help="fresh prefixes (default: 4)")
    parser.add_argument("--warm", type=count, default=3, help="further requests with each prefix (default: 3)")
    parser.add_argument(
        "--prefix-tokens",
        type=tokens("--prefix-tokens"),
        help="length of the shared system prompt (default: about 8,280, or less where the server states its limit)",
    )


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api
    from kvlab.cli import progress

    with progress.counted("requests with shared prefixes") as tell:
        found = api.prefix(
            options.url,
            engine=options.engine,
            rounds=options.rounds,
            warm=options.warm,
            prefix_tokens=options.prefix_tokens,
            progress=tell,
        )

    def show() -> RenderableType:
        from kvlab.reporting import terminal

        return terminal.prefix(found)

    return Answer(found, show)


COMMAND = Command("time to first token with a cold and a warm prefix, and the engine's hit counts", _arguments, _run)
