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

    found = [_engine(name) for name in engines.names()]
    return Answer(found, lambda: _show(found))


def _engine(name: str) -> dict[str, object]:
    from kvlab import engines
    from kvlab.core.plan import Ask

    launcher = engines.launcher(name)
    where = launcher.binary(Ask(engine=name))
    return {
        "name": name,
        "title": engines.engine(name).title,
        "rules_of_version": engines.engine(name).version,
        "installed": where is not None,
        "where": None if where is None else list(where),
        "missing": launcher.missing if where is None else None,
        "kv_dtypes": list(engines.planner(name).dtypes),
    }


def _show(found: list[dict[str, object]]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from kvlab.reporting import words
    from kvlab.reporting.terminal_parts import bullets, heading, left, table

    body = table(
        left("name", wraps=False), left("engine"), left("rules of"), left("started here by"), left("cache dtypes")
    )
    for row in found:
        where, dtypes = row["where"], row["kv_dtypes"]
        assert isinstance(dtypes, list)
        started = words.shell(where, {}).replace(" \\\n ", "") if isinstance(where, list) else "not installed"
        cells = (row["name"], row["title"], row["rules_of_version"], started, ", ".join(dtypes))
        body.add_row(*(Text(words.plain(str(cell))) for cell in cells))
    missing = [f"{row['name']}: {row['missing']}" for row in found if row["missing"]]
    tail: list[RenderableType] = [heading("To start the others"), bullets(missing)] if missing else []
    return Group(body, *tail)


COMMAND = Command("the engines that kvlab plans and launches, and which are installed here", _arguments, _run)
