"""A JSON record of a request log -> its requests: chat messages, prompts, token ids, answers, in the forms of OpenAI.

A record is the request's body itself, or holds it under a key ("request", "body", ...), as an object or as JSON text.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TypeGuard

from kvlab.core.trace import Logged, Unusable
from kvlab.traces._rows import MOST_TOKENS

BODIES = ("request", "body", "request_body", "request_json", "requestBody", "payload", "params", "kwargs")
"""Keys under which a gateway or a batch file puts the request's body."""
PROMPTS = frozenset({"messages", "prompt", "input", "prompt_token_ids", "input_ids", "token_ids"})
"""Keys of which a body has at least one."""
TIMES = (
    *("timestamp", "time", "ts", "@timestamp", "created", "created_at", "createdAt", "start_time", "startTime"),
    *("request_time", "arrival_time", "timestamp_ms", "start"),
)
_ANSWERS = ("response", "response_body", "response_json", "responseBody", "completion", "result", "output")
_INPUT = ("prompt_tokens", "input_tokens", "promptTokens")
_OUTPUT = ("completion_tokens", "output_tokens", "completionTokens")
_UNITS = ((1e16, 1e-9), (1e13, 1e-6), (1e11, 1e-3))
"""Numbers of this size count nanoseconds, microseconds, milliseconds since 1970; smaller ones seconds."""

Record = dict[str, object]


def requests(where: str, record: object) -> list[Logged]:
    """The requests of a record: more than one where its prompt is a list of prompts. Raises Unusable."""
    if not _is_record(record):
        raise Unusable("no JSON object")
    body, answer = body_of(record), _answer_of(record)
    if body is None:
        raise Unusable("neither messages, a prompt nor token ids")
    usage = [part for source in (answer, record, body) for part in (_child(source, "usage"), source) if part]
    made = Logged(
        where=where,
        time=_time(record, body),
        tools=_tools(body),
        prompt_tokens=_count(usage, _INPUT),
        answer=_text_of_answer(answer),
        answer_tokens=_count(usage, _OUTPUT),
        record=record,
    )
    return _with_prompts(made, body)


def body_of(record: Record) -> Record | None:
    """The part of a record that holds the prompt; the record itself where it does. None: there is none."""
    for key in BODIES:
        inner = parsed(record.get(key))
        if _is_record(inner):
            found = body_of(inner)
            if found is not None:
                return found
    return record if PROMPTS & record.keys() else None


def parsed(value: object) -> object:
    """JSON text as what it says; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            found: object = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return found
    return value


def _with_prompts(made: Logged, body: Record) -> list[Logged]:
    messages = parsed(body.get("messages"))
    if messages is not None:
        return [made._replace(messages=_system(body) + _messages(messages))]
    for key in ("prompt_token_ids", "input_ids", "token_ids", "prompt", "input"):
        value = parsed(body.get(key)) if key != "prompt" else body.get(key)
        if value is None:
            continue
        if isinstance(value, str):
            if key == "input" and isinstance(body.get("instructions"), str):
                return [made._replace(messages=[*_system(body), {"role": "user", "content": value}])]
            return [made._replace(prompt=value)]
        if _all(value, int):
            return [made._replace(ids=_ids(value))]
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            return [made._replace(messages=_system(body) + _items(value))]
        if isinstance(value, list) and value and all(isinstance(item, str) or _all(item, int) for item in value):
            # what was counted is counted for all of them together
            one = made._replace(prompt_tokens=None, answer=None, answer_tokens=None, record=None)
            return [
                one._replace(prompt=item) if isinstance(item, str) else one._replace(ids=_ids(item)) for item in value
            ]
    raise Unusable("its prompt is neither text, messages nor token ids")


def _system(body: Record) -> list[dict[str, object]]:
    """A system prompt that stands beside the messages (Anthropic's `system`, the Responses API's `instructions`)."""
    for key in ("system", "instructions"):
        text = content(body.get(key))
        if text:
            return [{"role": "system", "content": text}]
    return []


def _messages(value: object) -> list[dict[str, object]]:
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise Unusable("its messages are no list of objects")
    if any(not isinstance(item.get("role"), str) for item in value):
        raise Unusable("a message has no role")
    return [{**item, "content": content(item.get("content"))} for item in value]


def _items(value: list[dict[str, object]]) -> list[dict[str, object]]:
    """Input items of the Responses API as chat messages."""
    found: list[dict[str, object]] = []
    for item in value:
        role = item.get("role") or {"function_call": "assistant", "function_call_output": "tool"}.get(
            str(item.get("type")), "user"
        )
        found.append({"role": str(role), "content": item_text(item)})
    return found


def item_text(item: Record) -> str:
    """The text of a message, of a tool's output, or of a call's arguments."""
    return content(item.get("content", item.get("output", item.get("arguments"))))


def content(value: object) -> str:
    """A message's text; of a list of parts, the text parts, one after the other."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    texts = [part.get("text") if isinstance(part, dict) else part for part in value]
    return "".join(text for text in texts if isinstance(text, str))


def _tools(body: Record) -> list[dict[str, object]] | None:
    tools = parsed(body.get("tools"))
    if not isinstance(tools, list) or not tools or not all(isinstance(item, dict) for item in tools):
        return None
    return tools


def _answer_of(record: Record) -> Record | None:
    for key in _ANSWERS:
        value = parsed(record.get(key))
        if isinstance(value, str):
            return {"text": value}
        if isinstance(value, list):
            return {"output": value}
        if _is_record(value):
            return _child(value, "body") or value
    return record if "choices" in record else None


def _text_of_answer(answer: Record | None) -> str | None:
    if answer is None:
        return None
    for key in ("choices", "output", "content"):
        parts = answer.get(key)
        if isinstance(parts, list) and parts:
            texts = [_piece(part) for part in parts[: 1 if key == "choices" else None] if isinstance(part, dict)]
            return "".join(texts)
    text = answer.get("text")
    return text if isinstance(text, str) else None


def _piece(part: Record) -> str:
    inner = _child(part, "message") or part
    return content(inner.get("content")) or content(inner.get("text"))


def _time(record: Record, body: Record) -> float | None:
    """Seconds. Raises Unusable for a time that is none: the row's place among the others is unknown."""
    for source in (record, body):
        for key in TIMES:
            if source.get(key) is not None:
                return seconds(source[key])
    return None


def seconds(value: object) -> float:
    """Seconds of a number whose size tells its unit, or of a date and time. Raises Unusable."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, str):
        return _stated_seconds(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e19 < value < 1e19:
        raise Unusable("its time is no time")
    return value * next((unit for least, unit in _UNITS if abs(value) >= least), 1.0)


def _stated_seconds(text: str) -> float:
    try:
        return seconds(float(text))
    except ValueError:
        pass
    try:
        return seconds(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise Unusable("its time is neither a number nor a date and time") from None


def _count(sources: list[Record], names: tuple[str, ...]) -> int | None:
    for source in sources:
        for name in names:
            value = source.get(name)
            if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
                value = int(value)
            if isinstance(value, int | float) and not isinstance(value, bool):
                if not 0 <= value <= MOST_TOKENS or value != int(value):
                    raise Unusable(f"{name} is no number of tokens")
                return int(value)
    return None


def _ids(value: list[int]) -> list[int]:
    if any(not 0 <= token < 1 << 31 for token in value):
        raise Unusable("a token id is below 0, or above any vocabulary")
    return value


def _child(record: Record | None, key: str) -> Record | None:
    value = parsed(record.get(key)) if record is not None else None
    return value if _is_record(value) else None


def _is_record(value: object) -> TypeGuard[Record]:
    return isinstance(value, dict)


def _all(value: object, kind: type) -> TypeGuard[list[int]]:
    return isinstance(value, list) and bool(value) and all(type(item) is kind for item in value)
