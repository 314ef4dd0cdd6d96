"""The pages of all causes as one Markdown document: docs/causes.md is what this gives."""

from __future__ import annotations

from kvlab import causes

_HEAD = """# Why a log says something else than the plan

Generated from src/kvlab/causes by `python scripts/cause_pages.py`; a test keeps it so. `kvlab check LOG --plan FILE`
tries all of these on rows that differ. Settings that the log states are put into the plan, and it is made again: where
every row then agrees to the printed digits, the setting explains it exactly. What no line states is tried by
arithmetic, with the log's own pool in the place of the budget's; where several give the same numbers, each is only
possible.
"""


def document() -> str:
    """A table of the codes, and each cause's page."""
    return "\n".join((_HEAD, *map(_section, causes.codes())))


def _section(code: str) -> str:
    title, seen = causes.page(code)
    cause = causes.cause(code)
    settings = f"\n\nSettings: {', '.join(f'`{name}`' for name in cause.settings)}" if cause.settings else ""
    learned = "\n\n`--learn` keeps such a start." if cause.taught else ""
    return f"## {code}\n\n**{title}.** Seen: {seen}{settings}{learned}\n"
