"""Tiers and the machine's own memory on a terminal."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from kvlab.core.plan import Plan
from kvlab.core.units import size
from kvlab.reporting import tiered, words
from kvlab.reporting.terminal_parts import heading, left, right, table


def tiers(value: Plan) -> list[RenderableType]:
    """What each tier holds and how it is asked for, then what the machine must have; nothing without tiers."""
    parts: list[RenderableType] = []
    if value.tiers:
        body = table(
            left("tier"),
            right("size"),
            right("each rank"),
            right("tokens"),
            right("requests"),
            left("found again in"),
            left("asked for by"),
        )
        for row in tiered.rows(value):
            body.add_row(*(Text(cell) for cell in row[:-1]))
        parts += [heading(tiered.caption(value)), body]
        parts += [Text(f"{row.flag}: {row.because}", style="dim") for row in tiered.rows(value)]
    if value.host:
        ledger = table(left("line"), right("amount"), left("because"))
        for line in value.host:
            strong = "bold" if tiered.is_sum(line) else ""
            cells = (words.label(line.name), size(line.bytes), words.plain(line.because))
            ledger.add_row(*(Text(cell, style=strong if at < 2 else "") for at, cell in enumerate(cells)))
        parts += [heading("Memory of the machine"), ledger]
    return parts
