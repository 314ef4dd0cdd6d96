"""The quality gate in a terminal: its verdict, each part with its figures, and the figures by context length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from kvlab.core.gate import Figure, LengthRow, PartFinding, PartList
from kvlab.core.quality import Quality
from kvlab.reporting import figures, words
from kvlab.reporting.terminal_parts import bullets, facts, heading, left, note, right, table, verdict_line

if TYPE_CHECKING:
    from rich.console import RenderableType

_SHOWN = 3
"""Pairs of texts printed of each part."""


def quality(value: Quality) -> RenderableType:
    """The gate's verdict, then its parts; a record of an earlier kvlab holds the agreement alone."""
    if value.gate is None:
        return agreement(value)
    gate = value.gate
    parts: list[RenderableType] = [
        verdict_line(gate.verdict, f"Quality gate: {gate.verdict}", words.plain(gate.because))
    ]
    for found in value.parts:
        parts += _part(found)
        if found.name == "agreement" and value.by_kind:
            parts.append(_kinds(value))
    return Group(*parts)


def agreement(value: Quality) -> RenderableType:
    """How far the answers of B agree with those of A, beside A against itself."""
    body = table(left("measured"), right("prompts"), right("failed"), left("identical"), left("shared prefix"))
    for name, item in (("A against A", value.noise_floor), ("A against B", value.candidate)):
        if item is not None:
            body.add_row(
                Text(name),
                Text(f"{item.prompts:,}"),
                Text(f"{item.failed:,}"),
                Text(words.share_interval(item.identical)),
                Text(words.share_interval(item.shared_prefix)),
            )
    head = verdict_line("", f"Quality {value.verdict}", words.plain(value.because))
    tail: list[RenderableType] = [Text(), _kinds(value)] if value.by_kind else []
    return Group(head, note(f"up to {value.max_tokens:,} tokens an answer"), body, *tail)


def listed(value: PartList) -> RenderableType:
    """The parts of the gate, and the engines that can run them."""
    body = table(left("part"), left("what it compares"), left("needs"), left("engines"))
    for part in value.parts:
        engines = ", ".join(part.engines) or next(iter(part.lacks.values()), "none")
        body.add_row(Text(part.name), Text(part.title), Text(part.needs), Text(engines))
    return body


def _kinds(value: Quality) -> RenderableType:
    kinds = table(left("kind of prompt"), right("identical, A against A"), right("identical, A against B"))
    for kind, (floor, candidate) in value.by_kind.items():
        kinds.add_row(Text(words.plain(kind)), Text(words.share(floor)), Text(words.share(candidate)))
    return kinds


def _part(found: PartFinding) -> list[RenderableType]:
    parts: list[RenderableType] = [
        heading(f"{words.plain(found.title)} ({found.name}): {found.verdict}"),
        bullets([words.plain(found.because)]),
    ]
    if found.numbers:
        parts.append(_numbers(found.numbers))
    if found.by_length:
        parts += [Text(), _lengths(found.by_length)]
    for example in found.examples[:_SHOWN]:
        rows = [("asked", _short(example.asked)), ("A", _short(example.a)), ("B", _short(example.b))]
        parts += [Text(), facts([*rows, *([("note", words.plain(example.note))] if example.note else [])])]
    return parts


def _numbers(numbers: tuple[Figure, ...]) -> RenderableType:
    body = table(left("measured"), left("A"), left("B"), left("difference"), right("allowed"))
    for figure in numbers:
        body.add_row(
            Text(words.plain(figure.name)),
            Text(figures.interval(figure.a, figure.unit)),
            Text(figures.interval(figure.b, figure.unit)),
            Text(figures.difference(figure)),
            Text(figures.allowed(figure)),
        )
    return body


def _lengths(rows: tuple[LengthRow, ...]) -> RenderableType:
    titles = (right(f"{name}, A / B", wraps=True) for name in figures.names(rows))
    body = table(right("context tokens", wraps=True), right("count"), *titles)
    for row in rows:
        cells = (Text(cell) for _, cell in figures.cells(row, rows))
        body.add_row(Text(figures.lengths(row)), Text(f"{row.count:,}"), *cells)
    return body


def _short(text: str) -> str:
    shown = words.plain(" ".join(text.split()))
    return shown if len(shown) <= 160 else f"{shown[:120]} ... {shown[-35:]}"
