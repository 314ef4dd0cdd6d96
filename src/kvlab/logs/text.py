"""The engine's own line, out of what Docker, Kubernetes, journald and log stores put around it."""

from __future__ import annotations

import re

import msgspec

from kvlab.core.masking import masked

_KEYS = (
    *("log", "message", "msg", "MESSAGE", "line", "textPayload", "body", "Body", "@message", "event"),
    *("content", "attributes", "jsonPayload", "_source", "fields", "data", "stringValue", "StringValue", "result"),
)
"""Where Docker, collectors, journald's JSON, Loki, Datadog, clouds and llama.cpp's own JSON lines keep the line."""
_DEEPEST = 4
"""Wrappings around one line: a store's export of a collector's record of an engine that writes JSON."""
_PREFIX = re.compile(
    r"(?:\[(?:pod|deployment|job)/[^\]\s]+\]\s"  # kubectl logs --prefix
    r"|[\w.-]+\s*\|\s"  # docker compose
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?\s(?:std(?:out|err)\s[FP]\s)?"  # --timestamps, CRI
    r"|[A-Z][a-z]{2}\s[ \d]\d\s\d\d:\d\d:\d\d\s\S+\s\S+\[\d+\]:\s)*"  # journald
)
_PARTIAL = re.compile(r"\d\d:\d\d\S*\sstd(?:out|err)\sP\s")
"""CRI cuts a long line into parts."""
_PART_BYTES = 16 << 10
"""Docker cuts a longer line into records of this size, of which only the last ends with a newline."""
_COLOUR = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_BINARY = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
_CUT_END = re.compile(r"(?:=\s*[\w.+-]*|\bv?\d[\d.,]*|\bversion:?\s+\S*)$")
_LAST_WORD = re.compile(r"\S*$")
_CUT_START = re.compile(r"^\S+")


def texts_of(raw: bytes) -> list[str]:
    """The lines that one line of the file holds: itself, or what is wrapped in it as JSON.

    A line that its collector cut, which the next record continues, ends before what may be half a number.
    """
    text = raw.decode("utf-8", "replace")
    start = 0 if text.startswith("{") else _PREFIX.match(text).end()  # type: ignore[union-attr]  # it may match nothing
    if not text.startswith("{", start):
        if start and _PARTIAL.search(text, 0, start):
            return [without_end(text)]
        return [text]
    inner = _unwrapped(text[start:], _DEEPEST)
    if inner is None:
        return [text]
    if not inner.endswith("\n") and len(inner.encode("utf-8", "replace")) >= _PART_BYTES:
        inner = without_end(inner)
    plain = _COLOUR.sub("", inner) if "\x1b" in inner else inner
    return [line for line in re.split(r"[\r\n]+", plain) if line] or [""]


def _unwrapped(text: str, deep: int) -> str | None:
    try:
        wrapped: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return _message(wrapped, deep)


def _message(wrapped: object, deep: int) -> str | None:
    if isinstance(wrapped, str):
        inner = _unwrapped(wrapped, deep - 1) if deep and wrapped.lstrip().startswith("{") else None
        return wrapped if inner is None else inner
    if not isinstance(wrapped, dict) or not deep:
        return None
    found = (_message(wrapped[key], deep - 1) for key in _KEYS if key in wrapped)
    return next((inner for inner in found if inner is not None), None)


def without_end(text: str) -> str:
    """The line of a log that is cut there: a number or word at its very end may lack a part."""
    return _CUT_END.sub("", text)


def without_last_word(text: str) -> str:
    """A line whose end is damaged."""
    return _LAST_WORD.sub("", text)


def without_start(text: str) -> str:
    """A line that is cut at its beginning, from its first whole word."""
    return _CUT_START.sub("", text)


def damaged(text: str) -> bool:
    """Whether bytes that no engine prints stand in the line: nobody knows what else of it was lost."""
    return _BINARY.search(text) is not None


def plain(text: str) -> str:
    """`text` with control characters written out (\\x1b, \\u202e); a tab is a space."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text.replace("\t", " "))


def shown(text: str, at: int, limit: int = 400) -> str:
    """What a person is shown of a line: at most `limit` characters around `at`, and no key among them."""
    at, text = len(masked(text[:at])), masked(text)
    start = max(0, min(at - limit // 4, len(text) - limit))
    part = plain(text[start : start + limit]).strip()
    return f"{'... ' if start else ''}{part}{' ...' if start + limit < len(text) else ''}"
