"""The pages of all causes as one Markdown document: docs/causes.md is what this gives."""

from __future__ import annotations

from kvlab import causes
from kvlab.core.plan import Ask

_HEAD = """# Why a log says something else than the plan

Generated from src/kvlab/causes by `python scripts/cause_pages.py`; a test keeps it so. `kvlab check LOG --plan FILE`
tries all of these on rows that differ. Settings that the log states are put into the plan, and it is made again: where
every row then agrees to the printed digits, the setting explains it exactly. What no line states is tried by
arithmetic, with the log's own pool in the place of the budget's; where several give the same numbers, each is only
possible. Settings are named as `kvlab plan` takes them. `kvlab check --learn` refuses a log when a cause that is more
than possible has no word on it here: another setting or another program is no overhead of this deployment.
"""


def document() -> str:
    """What the causes are for, and each cause's page."""
    return "\n".join((_HEAD, *map(_section, causes.codes())))


def _section(code: str) -> str:
    title, seen = causes.page(code)
    cause = causes.cause(code)
    settings = f"\n\nSettings: {', '.join(map(_option, cause.settings))}" if cause.settings else ""
    learned = "\n\n`kvlab check --learn` takes a log that differs for this cause." if cause.taught else ""
    return f"## {code}\n\n**{title}.** Seen: {seen}{settings}{learned}\n"


def _option(name: str) -> str:
    """How `kvlab plan` is asked for a setting."""
    return f"`--{name.replace('_', '-')}`" if name in Ask.__struct_fields__ else f"`--engine-arg {name}=...`"
