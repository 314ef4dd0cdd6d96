"""A request as the pieces of its prompt, in the order in which they are usually written: tools, then the messages."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from kvlab.core.trace import Logged

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_LONG = 240
"""Characters of a line from which a sentence of it is moved rather than the whole line."""


class Piece(NamedTuple):
    """Tools as JSON, a message, or a whole prompt."""

    kind: str
    role: str
    text: str

    def label(self, number: int) -> str:
        """What it is called in a report; `number`: which message it is, from 1."""
        if self.kind != "message":
            return "the tools" if self.kind == "tools" else "the prompt"
        return "the system message" if self.role == "system" and number == 1 else f"message {number} ({self.role})"


def pieces(logged: Logged) -> list[Piece]:
    """Nothing for a request of token ids alone."""
    if logged.messages is None:
        return [Piece("prompt", "", logged.prompt)] if logged.prompt is not None else []
    tools = [Piece("tools", "", json.dumps(logged.tools, ensure_ascii=False))] if logged.tools else []
    return [*tools, *(Piece("message", str(item.get("role")), str(item.get("content"))) for item in logged.messages)]


def number(made: list[Piece], at: int) -> int:
    """Which message the piece is."""
    return at + 1 - (bool(made) and made[0].kind == "tools")


def rebuilt(logged: Logged, made: list[Piece], order: list[int] | None) -> Logged:
    """The request with its pieces' texts replaced; `order`: the messages' new order, if it changed."""
    if logged.messages is None:
        return logged._replace(prompt=made[0].text)
    tools, rest = logged.tools, made
    if made and made[0].kind == "tools":
        tools, rest = json.loads(made[0].text), made[1:]
    old = logged.messages if order is None else [logged.messages[at] for at in order]
    messages = [
        item if item.get("content") == piece.text else {**item, "content": piece.text}
        for item, piece in zip(old, rest, strict=True)
    ]
    return logged._replace(messages=messages, tools=tools)


def unit(text: str, begin: int, end: int) -> str:
    """What is moved with a value: its line, or its sentence in a long one."""
    low, high = text.rfind("\n", 0, begin) + 1, text.find("\n", end)
    high = len(text) if high < 0 else high
    if high - low <= _LONG and (low > 0 or high < len(text)):
        return text[low:high]
    for gap in _SENTENCE.finditer(text, low, high):
        if gap.start() <= begin:
            low = gap.end() if gap.end() <= begin else low
        elif gap.start() >= end:
            high = gap.start()
            break
    return text[low:high]


def without(text: str, moved: str) -> str | None:
    """The text without that unit; None when it is not there."""
    at = text.find(moved)
    if at < 0 or not moved.strip():
        return None
    before, after = text[:at], text[at + len(moved) :]
    if before.endswith("\n") and after.startswith("\n"):
        return before + after[1:]
    return before + after.lstrip(" ") if before.endswith((" ", "\n")) or not before else before + after
