"""Bodies of answers, none longer than such an answer can be: a hostile server may never stop sending."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import TYPE_CHECKING

from kvlab.core.errors import ServerRefused

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

MODELS_BYTES = 4 << 20
"""Longest list of models."""
METRICS_BYTES = 8 << 20
"""Longest page of metrics: a busy vLLM's has some 100 KB."""
TOKENS_BYTES = 32 << 20
"""Longest answer of a tokenizer: 2 million token ids."""

_KEY = re.compile(
    r'("(?:[\w-]*[_-])?(?:api_?key|password|passwd|secret|authorization|(?:hf|auth|access|api)_token)"\s*:\s*)'
    r'"(?:[^"\\]|\\.)*"',
    re.IGNORECASE,
)
"""A field of JSON that holds a secret: SGLang's /server_info repeats its api_key."""
_ARGUMENT = re.compile(r"(--(?:[\w-]+-)?(?:api-key|password|token|secret)(?:[= ]|\", ?\"))[^\s\",]+", re.IGNORECASE)
_LONG = 8
"""Characters from which a secret is replaced wherever it stands; a shorter one may be a part of other words."""


async def body(response: ClientResponse, most: int) -> bytes:
    """The whole body. Raises ServerRefused when it is longer than `most` bytes."""
    parts, held = [], 0
    async for part in response.content.iter_chunked(1 << 16):
        parts.append(part)
        held += len(part)
        if held > most:
            response.close()
            raise ServerRefused(
                f"{response.url} sends more than {most:,} bytes, which no such page has; is this the engine's address?"
            )
    return b"".join(parts)


def without_secrets(message: str, session: ClientSession) -> str:
    """The message without the key, or user name and password, that the session sends: some servers repeat them."""
    for secret in _sent(session):
        message = message.replace(secret, "***")
    return message


def to_keep(page: str, session: ClientSession) -> str:
    """A page as it may be saved: without what the session sends, and without the keys that the server was given.

    What is sent and shorter than eight characters goes where it is a whole string or follows "Bearer" or "Basic": the
    key "vllm" must not take the names of the metrics with it.
    """
    page = _ARGUMENT.sub(r"\1***", _KEY.sub(r'\1"***"', page))
    for secret in _sent(session):
        if len(secret) >= _LONG:
            page = page.replace(secret, "***")
            continue
        text = re.escape(secret)
        page = re.sub(rf"(?i:(\b(?:bearer|basic)\s+)){text}(?!\w)", r"\1***", page)
        page = re.sub(rf'"{text}"(?!\s*:)', '"***"', page)
    return page


def _sent(session: ClientSession) -> list[str]:
    """The secrets of the session's Authorization header, the longest first."""
    kind, _, sent = session.headers.get("Authorization", "").partition(" ")
    secrets = [sent]
    if kind == "Basic":
        pair = b64decode(sent).decode(errors="replace")
        secrets += [pair, pair.partition(":")[2]]
    return sorted(filter(None, secrets), key=len, reverse=True)
