"""Logs of requests to an OpenAI-style server: a JSON object a line, with messages, a prompt, or token ids.

The body of /v1/chat/completions, /v1/completions or /v1/responses, alone, in a batch file's `body`, or beside its time
and response (https://platform.openai.com/docs/api-reference).
"""

from __future__ import annotations

import json

import msgspec

from kvlab.core.trace import Logged, TextFormat, Unusable
from kvlab.traces import _requests
from kvlab.traces._rows import filled_lines, keys
from kvlab.traces._text import trace_reader

_OTHERS = frozenset({"hash_ids", "chunk_hashes", "metrics"})


def _recognises(head: str) -> bool:
    found = keys(head)
    bodies = {*_requests.PROMPTS, *_requests.BODIES}
    return bool(bodies & found) and not _OTHERS & found


def _requests_of(where: str, row: object) -> list[Logged]:
    assert isinstance(row, bytes)
    return _requests.requests(where, record(row))


def record(row: bytes) -> object:
    """The line's JSON. Raises Unusable, without any of its text."""
    try:
        found: object = msgspec.json.decode(row)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _leniently(row)
    return found


def _leniently(row: bytes) -> object:
    """What Python itself writes as JSON: half a surrogate pair, where a text was cut."""
    try:
        found: object = json.loads(row)
    except (ValueError, RecursionError) as problem:
        raise Unusable(f"no JSON ({type(problem).__name__})") from None
    return found


READER = trace_reader("OpenAI-style request logs", _recognises, TextFormat("openai", filled_lines, _requests_of))
