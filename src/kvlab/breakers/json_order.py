"""The keys of a JSON object, or the tools, come in another order.

Symptom: prompts hold the same tools, or the same JSON, in another order.

Cause: the program keeps them in a set or a map without an order, or several servers register tools as they answer. The
first key that stands elsewhere ends the common prefix, and tools stand at the very front of most chat templates.

Do:
- sort the tools by name before they are sent
- write JSON with its keys sorted (json.dumps(value, sort_keys=True))

Source: https://docs.vllm.ai/en/latest/design/prefix_caching.html
"""

from __future__ import annotations

import json
import re

from kvlab.core.breaker import Cause

_OPENS = re.compile(r"\[\s{0,40}\{|\{")
_FAILED = 200
"""Braces that begin no JSON, after which the text is taken to hold none."""
_LEAST = 8
"""Characters from which a piece of JSON is worth sorting."""


def _normal(text: str) -> str:
    """The text with every JSON object or list of objects in it written with sorted keys, tools by their names."""
    decoder = json.JSONDecoder()
    found, done, failed = [], 0, 0
    at = _start(text, 0)
    while at >= 0 and failed < _FAILED:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = _start(text, at + 1)
            failed += 1
            continue
        if end - at >= _LEAST and isinstance(value, dict | list):
            found += [text[done:at], _written(value, text[at:end])]
            done = end
        at = _start(text, end)
    return "".join([*found, text[done:]])


def _start(text: str, at: int) -> int:
    found = _OPENS.search(text, at)
    return found.start() if found else -1


def _written(value: object, text: str) -> str:
    """As it stood: on one line, or indented."""
    indent = 2 if "\n" in text else None
    return json.dumps(ordered(value), sort_keys=True, ensure_ascii=False, indent=indent)


def ordered(value: object) -> object:
    """Lists of tools by the names of the tools, at any depth."""
    if isinstance(value, dict):
        return {key: ordered(item) for key, item in value.items()}
    if isinstance(value, list):
        items = [ordered(item) for item in value]
        return sorted(items, key=_name) if items and all(_name(item) for item in items) else items
    return value


def _name(item: object) -> str:
    inner = item.get("function", item) if isinstance(item, dict) else None
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else ""


CAUSE = Cause(
    title="JSON keys or tools in another order",
    fix="sort the tools by name and write JSON with sorted keys",
    rank=0,
    normal=_normal,
)
