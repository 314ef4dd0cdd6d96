"""The pages of all rules as one Markdown document: docs/rules.md is what this gives."""

from __future__ import annotations

from collections.abc import Iterable

from kvlab.core.rule import Page
from kvlab.reporting.page_parts import numbered, sentence, sources

_HEAD = """# What `kvlab explain` knows

Generated from src/kvlab/rules by `python scripts/rule_pages.py`; a test keeps it so. `kvlab explain LOG` looks for all
of these, `kvlab explain CODE` prints one. Finding none is no proof of health.
"""


def document(pages: Iterable[Page]) -> str:
    """A table of the codes and titles, then each page."""
    every = list(pages)
    rows = [f"| [{page.code}](#{page.code}) | {page.title} | {_whose(page)} |" for page in every]
    table = "\n".join(("| code | what | in the log of |", "| --- | --- | --- |", *rows))
    return "\n".join((_HEAD, table, "", *map(_section, every)))


def _whose(page: Page) -> str:
    return ", ".join(page.engines) or "any engine"


def _section(page: Page) -> str:
    return (
        f"## {page.code}\n\n**{page.title}.** {sentence(page.cause)}\n\nSymptom: {page.symptom}\n\n"
        f"Do, the cheapest first:\n\n{numbered(page.do)}\n\n{sources(page.source)}"
    )
