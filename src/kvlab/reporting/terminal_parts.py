"""Pieces that the terminal screens are made of: headings, tables, lists."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

_STYLES = {
    "fits": "bold green",
    "better": "bold green",
    "agrees": "bold green",
    "does_not_fit": "bold red",
    "worse": "bold red",
    "differs": "bold red",
}


def verdict_line(code: str, head: str, text: str) -> Text:
    """The first line of an answer: the verdict in words, then the sentence. Colour only repeats the words."""
    return Text.assemble((head, _STYLES.get(code, "bold")), f": {text}" if text else "")


def heading(text: str) -> Text:
    """A heading with an empty line above it."""
    return Text.assemble("\n", (text, "bold"))


def note(text: str) -> Text:
    """A line of secondary text."""
    return Text(text, style="dim")


def left(title: str, wraps: bool = True) -> Column:
    """A column of words."""
    return Column(title, justify="left", overflow="fold", no_wrap=not wraps)


def right(title: str, wraps: bool = False) -> Column:
    """A column of numbers; one that `wraps` puts its units below when the screen is narrow."""
    return Column(title, justify="right", no_wrap=not wraps, overflow="fold")


def table(*columns: Column) -> Table:
    """A table with a line under its heading, as narrow as its content."""
    return Table(*columns, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values in two columns. The values must already be plain."""
    grid = Table.grid(Column(overflow="fold"), Column(overflow="fold"), padding=(0, 2, 0, 0))
    for name, value in rows:
        grid.add_row(Text(name), Text(value))
    return grid


def bullets(items: Iterable[str]) -> Table:
    """A list whose wrapped lines are indented. The items must already be plain."""
    grid = Table.grid(Column(width=1), Column(overflow="fold"), padding=(0, 1, 0, 0))
    for item in items:
        grid.add_row(Text("-"), Text(item))
    return grid


def indented(text: str) -> Padding:
    """Wrapped text, two columns in."""
    return Padding(Text(text, overflow="fold"), (0, 0, 0, 2))
