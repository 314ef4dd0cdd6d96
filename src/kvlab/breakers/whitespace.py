"""The same prompt comes with other spaces or line ends.

Symptom: prompts are alike but for spaces, tabs, empty lines, or line ends of Windows and Unix.

Cause: several clients, or several versions of a template, write the same text. Spaces are tokens: the first one that
differs ends the common prefix.

Do:
- let all clients take the template from one place
- strip it, and bring line ends and runs of spaces into one form before it is sent

Source: https://docs.vllm.ai/en/latest/design/prefix_caching.html
"""

from __future__ import annotations

import re

from kvlab.core.breaker import Cause

_LINE_END = re.compile(r"\r\n?")
_RUN = re.compile(r"(?<=\S)[ \t\u00a0]{2,}|[\t\u00a0]")
_EMPTY = re.compile(r"\n{3,}")


def _normal(text: str) -> str:
    text = _LINE_END.sub("\n", text)
    text = "\n".join(line.rstrip(" \t\u00a0") for line in text.split("\n"))
    return _EMPTY.sub("\n\n", _RUN.sub(" ", text)).strip()


CAUSE = Cause(
    title="other spaces or line ends",
    fix="bring spaces and line ends into one form",
    rank=20,
    normal=_normal,
)
