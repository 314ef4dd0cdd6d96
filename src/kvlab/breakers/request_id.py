"""The id of a request, a session or a trace stands in the prompt.

Symptom: prompts that are alike differ in an id that no two requests have in common: a UUID, a long number, a hash.

Cause: a framework or a template writes the id of the request or the session into the prompt, often only for its own
logs. No request then shares what follows it with any other.

Do:
- leave the id out of the prompt: it belongs into the request's metadata
- where the model must know it, move its line to the end of the prompt

Source: https://docs.vllm.ai/en/latest/design/prefix_caching.html
"""

from __future__ import annotations

import re

from kvlab.breakers._compare import known_by
from kvlab.core.breaker import Cause

_WHAT = (
    "request|req|trace|span|correlation|corr|session|sess|conversation|conv|thread|message|msg|run|job|call|task|"
    "transaction|txn|ticket|order|chat|nonce|build|seed|ref|reference"
)
_PATTERN = re.compile(
    r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
    rf"|(?i:\b(?:{_WHAT})[ _-]*(?:id|no|number|key)?[\"']?\s*(?:is|:|=|\#)?\s*[\"'<(\[]?)[\w-]*\d[\w-]*"
    rf"|(?i:\b(?:{_WHAT})[ _-]*id[\"']?\s*(?:is|:|=|\#)?\s*[\"'<(\[]?)[\w-]{{4,}}"
    r"|\b(?=[a-z0-9_-]*\d)[a-z]{2,10}[-_][a-zA-Z0-9]{6,}\b"
    r"|\b(?=[0-9a-f]*\d)[0-9a-f]{10,}\b"
    r"|\b[0-9A-HJKMNP-TV-Z]{26}\b"
)

CAUSE = Cause(
    title="an id of the request or session in the prompt",
    fix="leave the id out of the prompt, or move its line to the end of the last message",
    rank=50,
    skip=known_by(_PATTERN),
)
