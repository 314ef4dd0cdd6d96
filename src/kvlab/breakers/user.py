"""The name or the number of a user stands in the prompt.

Symptom: prompts that are alike differ in a name, an e-mail address or an account number.

Cause: the template greets the user, or says who is asking, before the instructions and the documents that all users
share. Each user then has a prefix of his own.

Do:
- move the line about the user to the end of the prompt, behind all that users have in common
- send what the engine need not know (an id for the bill) as metadata of the request, not in the prompt

Source: https://docs.vllm.ai/en/latest/design/prefix_caching.html
"""

from __future__ import annotations

import re

from kvlab.breakers._compare import known_by
from kvlab.core.breaker import Cause

_WHO = r"user|customer|client|account|member|employee|patient|student|tenant|caller|subscriber|owner|profile|login"
_NAME = r"[A-Z][\w'.-]*(?:\s[A-Z][\w'.-]*){0,2}"
_NUMBER = r"[\w.-]*\d[\w.-]*"
_PATTERN = re.compile(
    rf"(?i:\b(?:{_WHO})(?:'s)?[ _-]*(?:full[ _-]*name|name|id|no|number)?[\"']?"
    r"\s*(?:is|:|=|\#|named|called|-|_)?\s*[\"'<(]?)"
    rf"(?P<value>{_NAME}|{_NUMBER})"
)
_CUED = re.compile(
    rf"(?i:\bname[\"']?\s*(?:is|:|=)\s*[\"']?|\b(?:hello|hi|hey|dear|welcome(?:\sback)?)[ ,]+|"
    rf"\b(?:speaking|talking|chatting)\s(?:to|with)\s|\b(?:helping|assisting)\s|\bassistant\s(?:of|for|to)\s|"
    rf"\bon\sbehalf\sof\s)(?P<value>{_NAME})"
)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w|(?<!\w)@\w+")

CAUSE = Cause(
    title="a user's name or number in the prompt",
    fix="move the line about the user to the end of the last message",
    rank=40,
    skip=known_by(_MAIL, _PATTERN, _CUED),
)
