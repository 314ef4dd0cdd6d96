"""Pieces that the terminal screens are made of: headings, tables that fold on narrow screens, lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

_STYLES = {
    "fits": "bold green",
    "better": "bold green",
    "agrees": "bold green",
    "pass": "bold green",
    "fail": "bold red",
    "does_not_fit": "bold red",
    "worse": "bold red",
    "differs": "bold red",
}
_GAP = 2
"""Characters between columns: the padding and the (blank) separator."""
_LONGEST_WORD = 24
"""A longer word (a path, a flag) may be folded inside; a number never is that long."""
_READABLE = 14
"""Narrower than this, a column of prose is a column of single words."""
_UNDER_HEAD = "    \n    \n -- \n    \n    \n    \n    \n    \n"
_PLAIN_BOX = box.Box(_UNDER_HEAD, ascii=True)


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


class Sheet:
    """A table as narrow as its content. Where the screen cannot hold its numbers whole, each row becomes a block.

    In a block the first cell stands alone and the others follow below it, each after its column's title.
    """

    def __init__(self, *columns: Column, headed: bool = True) -> None:
        self._columns = columns
        self._headed = headed
        self._rows: list[tuple[Text, ...]] = []

    def add_row(self, *cells: Text) -> None:
        """One cell a column, already plain."""
        self._rows.append(cells)

    def fits(self, width: int) -> bool:
        """Whether `width` characters hold the table with no number folded."""
        return sum(self._least(at) for at in range(len(self._columns))) + self._gaps <= width

    @property
    def _gaps(self) -> int:
        return _GAP * (len(self._columns) - 1)

    def _texts(self, at: int) -> list[str]:
        title = [str(self._columns[at].header)] if self._headed else []
        return title + [row[at].plain for row in self._rows]

    def _most(self, at: int) -> int:
        return max((cell_len(line) for text in self._texts(at) for line in text.split("\n")), default=0)

    def _least(self, at: int) -> int:
        """Characters that a column needs: a number whole, prose in words of a readable line."""
        if self._columns[at].no_wrap:
            return self._most(at)
        words = (min(cell_len(word), _LONGEST_WORD) for text in self._texts(at) for word in text.split())
        prose = self._columns[at].justify == "left" and self._most(at) > 2 * _READABLE
        return min(self._most(at), max(_READABLE if prose else 0, max(words, default=0)))

    def _widths(self, room: int) -> list[int]:
        """What each column gets of `room`: its least, and a fair share of what is left, nobody more than it needs."""
        widths = [self._least(at) for at in range(len(self._columns))]
        spare = room - self._gaps - sum(widths)
        wanting = sorted(range(len(widths)), key=lambda at: self._most(at) - widths[at])
        for done, at in enumerate(wanting):
            given = min(self._most(at) - widths[at], spare // (len(wanting) - done))
            widths[at] += given
            spare -= given
        return widths

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._rows or self.fits(options.max_width):
            yield self._table(options)
        else:
            for row in self._rows:
                yield from self._block(row)

    def _table(self, options: ConsoleOptions) -> Table:
        columns = [
            Column(column.header, justify=column.justify, overflow="fold", no_wrap=column.no_wrap, width=width)
            for column, width in zip(self._columns, self._widths(options.max_width), strict=True)
        ]
        plain = options.ascii_only
        body = Table(
            *columns,
            box=(_PLAIN_BOX if plain else box.SIMPLE_HEAD) if self._headed else None,
            show_edge=False,
            show_header=self._headed,
            pad_edge=False,
            padding=(0, 1 if self._headed else _GAP, 0, 0),
        )
        for row in self._rows:
            body.add_row(*row)
        return body

    def _block(self, row: Sequence[Text]) -> Iterable[RenderableType]:
        first, *others = row
        yield Text(first.plain, style=first.style or ("bold" if self._headed else ""), overflow="fold")
        for column, cell in zip(self._columns[1:], others, strict=True):
            if cell.plain:
                text = " ".join(cell.plain.split()) if self._headed else cell.plain
                yield indented(f"{column.header}: {text}" if self._headed else text)


class FirstThatFits:
    """Sheets from the fullest to the barest, each with the lines under it: the first that the screen holds is shown."""

    def __init__(self, *choices: tuple[Sheet, Sequence[RenderableType]]) -> None:
        self._choices = choices

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fitting = (choice for choice in self._choices if choice[0].fits(options.max_width))
        sheet, below = next(fitting, self._choices[-1])
        yield sheet
        yield from below


def table(*columns: Column) -> Sheet:
    """A table with a line under its heading."""
    return Sheet(*columns)


def filled(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Sheet:
    """A table without the columns in which no row says anything. The cells must already be plain."""
    kept = [at for at in range(len(columns)) if not rows or any(row[at] for row in rows)]
    grid = Sheet(*(columns[at] for at in kept))
    for row in rows:
        grid.add_row(*(Text(row[at]) for at in kept))
    return grid


def facts(rows: Iterable[tuple[str, str]]) -> Sheet:
    """Names and values in two columns. The values must already be plain."""
    grid = Sheet(left(""), left(""), headed=False)
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
