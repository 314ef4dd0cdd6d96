"""The pages of all verdicts as one Markdown document: docs/diagnoses.md is what this gives."""

from __future__ import annotations

from kvlab.core.diagnosis import NOT_ENOUGH, DiagnosisList, DiagnosisPage
from kvlab.reporting.page_parts import numbered, sentence, sources

_HEAD = f"""# What `kvlab diagnose` can say

Generated from src/kvlab/diagnoses by `python scripts/diagnosis_pages.py`; a test keeps it so. Every condition is
answered yes, no or unknown; a verdict needs a yes to each of its conditions. Of several verdicts that hold, the one
that stands first here is given. When none holds, the answer is `{NOT_ENOUGH}`, with what is missing.
"""


def document(value: DiagnosisList) -> str:
    """A table of the codes and titles, then each page."""
    rows = [f"| {one.precedence} | [{one.code}](#{one.code}) | {one.title} |" for one in value.diagnoses]
    table = "\n".join(("| | verdict | what |", "| --- | --- | --- |", *rows))
    return "\n".join((_HEAD, table, "", *map(_section, value.diagnoses)))


def _section(page: DiagnosisPage) -> str:
    conditions = "\n".join(f"- {text}" for text in page.conditions)
    steps = numbered(
        f"**{sentence(step.do)}.** {sentence(step.why)}. Expect: {step.expect}. Verify: {step.verify}."
        for step in page.do
    )
    return (
        f"## {page.code}\n\n**{page.title}.** {sentence(page.cause)}\n\nConditions:\n\n{conditions}\n\n"
        f"Do:\n\n{steps}\n\n{sources(page.source)}"
    )
