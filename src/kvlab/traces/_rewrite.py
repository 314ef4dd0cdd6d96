"""A request's record with another prompt in the place of its own, and all else as it was."""

from __future__ import annotations

import json

from kvlab.core.trace import Logged
from kvlab.traces._requests import BODIES, Record, body_of, content, item_text, parsed


def record_of(logged: Logged) -> Record:
    """The log's own record with the request's messages, tools or prompt; a bare body where it has none."""
    if logged.record is not None:
        return _with_body(logged.record, logged)
    body: Record = {} if logged.time is None else {"timestamp": logged.time}
    if logged.tools:
        body["tools"] = logged.tools
    if logged.messages is not None:
        body["messages"] = logged.messages
    elif logged.prompt is not None:
        body["prompt"] = logged.prompt
    else:
        body["prompt_token_ids"] = logged.ids
    if logged.answer_tokens is not None:
        body["usage"] = {"completion_tokens": logged.answer_tokens}
    return body


def _with_body(record: Record, logged: Logged) -> Record:
    for key in BODIES:
        inner = parsed(record.get(key))
        if isinstance(inner, dict) and body_of(inner) is not None:
            return {**record, key: _as_it_was(record[key], _with_body(inner, logged))}
    changed = dict(record)
    if logged.tools is not None and "tools" in record:
        changed["tools"] = _as_it_was(record["tools"], logged.tools)
    if logged.messages is None:
        if logged.prompt is not None:
            changed["prompt" if isinstance(record.get("prompt"), str) else "input"] = logged.prompt
        return changed
    messages = list(logged.messages)
    for key in ("system", "instructions"):
        if content(record.get(key)) and messages:
            text = str(messages.pop(0)["content"])
            changed[key] = record[key] if content(record[key]) == text else text
            break
    name = "messages" if record.get("messages") is not None else "input"
    changed[name] = _messages(record[name], messages)
    return changed


def _messages(stated: object, made: list[Record]) -> object:
    """Messages whose text did not change stay as they stand in the log, parts and all."""
    if _is_text(stated):
        return str(made[0]["content"]) if made else ""
    old = parsed(stated)
    items = old if isinstance(old, list) else []
    kept = [items[at] if at < len(items) and _same(items[at], message) else message for at, message in enumerate(made)]
    return _as_it_was(stated, kept)


def _is_text(stated: object) -> bool:
    """Whether the input is plain text rather than messages."""
    return isinstance(stated, str) and not isinstance(parsed(stated), list)


def _same(item: object, message: Record) -> bool:
    return (
        isinstance(item, dict)
        and item.get("role", message.get("role")) == message.get("role")
        and item_text(item) == message.get("content")
    )


def _as_it_was(stated: object, value: object) -> object:
    """JSON text where it was text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(stated, str) else value
