"""`kvlab engines`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command

if TYPE_CHECKING:
    from rich.console import RenderableType


def _arguments(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import engines
    from kvlab.core.plan import Ask

    rows = [
        {
            "name": name,
            "title": engines.engine(name).title,
            "rules_of_version": engines.engine(name).version,
            "installed": engines.launcher(name).binary(Ask(engine=name)) is not None,
            "kv_dtypes": list(engines.planner(name).dtypes),
        }
        for name in engines.names()
    ]

    def show() -> RenderableType:
        from rich.table import Table

        grid = Table("name", "engine", "rules of", "installed here", "cache dtypes")
        for row in rows:
            dtypes = row["kv_dtypes"]
            assert isinstance(dtypes, list)
            grid.add_row(
                str(row["name"]),
                str(row["title"]),
                str(row["rules_of_version"]),
                "yes" if row["installed"] else "no",
                ", ".join(dtypes),
            )
        return grid

    return Answer(rows, show)


COMMAND = Command("the engines that kvlab plans and launches, and which are installed here", _arguments, _run)
