"""The pages of prefix breakers and moves as one Markdown document: docs/traffic.md is what this gives."""

from __future__ import annotations

from kvlab import breakers, traces
from kvlab.core.rule import Page
from kvlab.workload import moves

_HEAD = """# What `kvlab traffic` reads and says

Generated from src/kvlab/traces, breakers and workload/moves by `python scripts/traffic_pages.py`; a test keeps it so.
The format of a file is told from its content; `--format NAME` sets it. Text is tokenised on this machine
(`--tokenizer`), and what is kept of it are lengths and hashes whose key is drawn anew for each run.
"""
_BREAKERS = """## What breaks a prefix

Looked for in logs with text. Each is weighed by what an endless cache would hit without it, all others being fixed;
`--fix FILE` writes the log with all of them fixed.
"""
_MOVES = """## Moves

Settings first, then by the share of the prompt tokens that each saves on this traffic.
"""


def document() -> str:
    """The formats, then a page for each breaker and each move."""
    formats = [f"| {name} | {reader.title} |" for name, reader in traces.readers().items()]
    table = "\n".join(("| `--format` | what |", "| --- | --- |", *formats)) + "\n"
    causes = [_section(breakers.page(code)) for code in breakers.causes()]
    advice = [_section(moves.page(code)) for code in moves.known()]
    return "\n".join((_HEAD, table, _BREAKERS, *causes, _MOVES, *advice))


def _section(page: Page) -> str:
    steps = "\n".join(f"{at}. {text}" for at, text in enumerate(page.do, 1))
    seen = ", ".join(f"<{address}>" for address in page.source)
    return (
        f"### {page.code}\n\n**{page.title}.** {page.cause[:1].upper()}{page.cause[1:]}\n\n"
        f"Symptom: {page.symptom}\n\nDo:\n\n{steps}\n\nSource: {seen}\n"
    )
