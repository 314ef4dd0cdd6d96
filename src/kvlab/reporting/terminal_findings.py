"""What a log shows, on a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from kvlab.core.rule import Explain, Finding
from kvlab.reporting import words
from kvlab.reporting.terminal_parts import heading, note


def explained(value: Explain) -> RenderableType:
    """The findings, the most certain and cheapest first."""
    read = f"{value.lines:,} line{'' if value.lines == 1 else 's'}" + (
        f" of {words.plain(value.engine)}" if value.engine else ""
    )
    stranger = value.engine is None and not any(finding.engine for finding in value.findings)
    first = [Text("No line comes from an engine that kvlab knows: is this the engine's log?")] if stranger else []
    if not value.findings:
        nothing = Text(f"Nothing that kvlab knows of in {read}; this is no proof of health")
        return Group(*first, nothing)
    many = len(value.findings)
    return Group(
        *first,
        Text.assemble((f"{many} finding{'s' if many > 1 else ''}", "bold"), f" in {read}"),
        *map(_finding, value.findings),
    )


def _finding(value: Finding) -> RenderableType:
    times = f", {value.count:,} such lines" if value.count > 1 else ""
    later = value.recovered_line
    return Group(
        heading(words.plain(value.title)),
        note(f"{value.code}, {value.certainty}{times}; kvlab explain {value.code}"),
        Text(f"line {value.line_number:,}: {words.plain(value.line)}"),
        *([] if later is None else [Text(f"over: a later start serves from line {later:,} on")]),
        Text(f"why: {words.plain(value.why)}"),
        Text("do, the cheapest first:"),
        *_steps(value.do),
    )


def _steps(texts: tuple[str, ...]) -> list[RenderableType]:
    return [Padding(Text(f"{at}. {words.plain(text)}"), (0, 0, 0, 2)) for at, text in enumerate(texts, 1)]
