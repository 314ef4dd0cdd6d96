"""Bodies of answers, none longer than such an answer can be: a hostile server may never stop sending."""

from __future__ import annotations

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
    kind, _, sent = session.headers.get("Authorization", "").partition(" ")
    secrets = [sent]
    if kind == "Basic":
        pair = b64decode(sent).decode(errors="replace")
        secrets += [pair, pair.partition(":")[2]]
    for secret in sorted(secrets, key=len, reverse=True):
        message = message.replace(secret, "***") if secret else message
    return message
