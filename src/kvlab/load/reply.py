"""One streamed answer: what its events say, and when its tokens arrived."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kvlab.load.spec import Prompt

_BROKEN_FINISH = ("abort", "error")
_LONGEST_EVENT = 4 << 20
"""Bytes of one event: thousands of times one token's."""
_TOKEN_BYTES = 16 << 10
_SPARE_TOKENS = 1000
"""An answer may hold this many bytes for each token asked for, and for so many more."""
_TEMPLATE_TOKENS = 1 << 16
"""Room for what a chat template, or a system prompt of the server, adds to a prompt."""
_TAGS = re.compile(r"(?is)<(script|style).*?</\1>|<[^>]*>")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The most tokens that an answer and its prompt can have."""

    output_tokens: int = 1 << 40
    prompt_tokens: int = 1 << 40


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Delta(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: Any = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class Reply:
    """Collects one answer. Moments are `time.perf_counter()` readings."""

    __slots__ = ("asked", "bytes", "cached_tokens", "chunks", "doubt", "error", "finish_reason", "finished", "first",
                 "gaps", "last", "output_tokens", "prompt_tokens", "texts")  # fmt: skip

    def __init__(self, keep_text: bool, asked: Asked | None = None) -> None:
        self.asked = asked or Asked()
        self.bytes = 0
        self.doubt: str | None = None
        self.first: float | None = None
        self.last = 0.0
        self.gaps: list[float] = []
        self.chunks = 0
        self.finished = False
        self.finish_reason: str | None = None
        self.error: str | None = None
        self.prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.texts: list[str] | None = [] if keep_text else None

    def received(self, count: int, waiting: int) -> None:
        """`count` more bytes, `waiting` of them in an event without an end. Sets `error` when no answer is so long."""
        self.bytes += count
        if waiting > _LONGEST_EVENT:
            self.error = f"bad event: it has no end after {waiting:,} bytes"
        elif self.bytes > (self.asked.output_tokens + _SPARE_TOKENS) * _TOKEN_BYTES:
            asked = self.asked.output_tokens
            self.error = f"endless: {self.bytes:,} bytes arrived for an answer of at most {asked:,} tokens"

    def take(self, payload: bytes, now: float) -> None:
        """One event that arrived at `now`. Sets `error` when it is not what an OpenAI-compatible server sends."""
        if payload == b"[DONE]":
            self.finished = True
            return
        try:
            event = _decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            self.error = f"bad event: {problem}: {shorten(payload[:4096].decode(errors='replace'))}"
            return
        if event.choices:
            self._choice(event.choices[0], now)
        if event.usage is not None:
            self._usage(event.usage)
        if event.error:
            self.error = f"server error: {server_message(payload)}"

    def _choice(self, choice: _Choice, now: float) -> None:
        text = choice.text
        arrived = text is not None
        delta = choice.delta
        if delta is not None:
            text = delta.content or delta.reasoning_content or delta.reasoning
            # The first chunk of a chat names the role and may come before any token.
            arrived = bool(text or delta.tool_calls) or (delta.content is not None and delta.role is None)
        if choice.finish_reason is not None:
            self.finish_reason = choice.finish_reason
            self.finished = True
            if choice.finish_reason in _BROKEN_FINISH:
                self.error = f"server error: the answer ended with finish_reason {choice.finish_reason!r}"
            # llama.cpp says why it stopped in a chunk of its own that carries no token.
            arrived = arrived and bool(text)
            if self.first is None and not arrived:
                # An answer that is nothing but an end-of-text token.
                self.first = self.last = now
        if not arrived:
            return
        if self.first is None:
            self.first = now
        else:
            self.gaps.append(now - self.last)
        self.last = now
        self.chunks += 1
        if self.texts is not None and text:
            self.texts.append(text)

    def _usage(self, usage: _Usage) -> None:
        self.prompt_tokens = usage.prompt_tokens
        self.output_tokens = usage.completion_tokens
        if usage.prompt_tokens_details is not None:
            self.cached_tokens = usage.prompt_tokens_details.cached_tokens

    def settle(self) -> None:
        """Drop the counts that cannot be true, and say so in `doubt`. To be called when the answer is over."""
        # A token without text still arrives in a chunk of some bytes.
        most = max(self.asked.output_tokens, self.bytes)
        if self.output_tokens is not None and not 0 <= self.output_tokens <= most:
            self._disbelieve(f"completion_tokens {self.output_tokens}")
            self.output_tokens = None
        if self.prompt_tokens is not None and not 0 <= self.prompt_tokens <= self.asked.prompt_tokens:
            self._disbelieve(f"prompt_tokens {self.prompt_tokens}")
            self.prompt_tokens = self.cached_tokens = None
        cached, whole = self.cached_tokens, self.prompt_tokens
        if cached is not None and not 0 <= cached <= (self.asked.prompt_tokens if whole is None else whole):
            self._disbelieve(f"cached_tokens {cached} of {whole}")
            self.cached_tokens = None

    def _disbelieve(self, what: str) -> None:
        said = f"usage states {what}, which cannot be"
        self.doubt = said if self.doubt is None else f"{self.doubt}; {said}"

    def verdict(self) -> str | None:
        """Why the answer cannot be used; None for a complete one."""
        if self.error is not None:
            return self.error
        if not self.finished:
            return f"cut: the stream ended after {self.chunks} chunks without finish_reason or [DONE]"
        if not (self.chunks if self.output_tokens is None else self.output_tokens) or self.first is None:
            return "empty: the answer holds no token"
        return None


def answerable(prompt: Prompt, body: bytes) -> Asked:
    """What an answer to `prompt`, sent as `body`, can state: no tokenizer makes more tokens than there are bytes."""
    if any(not isinstance(message.get("content"), str) for message in prompt.messages or ()):
        return Asked(output_tokens=prompt.output_tokens)  # images and tools: their tokens are not in the body
    return Asked(output_tokens=prompt.output_tokens, prompt_tokens=len(body) + _TEMPLATE_TOKENS)


def request_body(prompt: Prompt, model: str, chat: bool) -> dict[str, object]:
    """The keys of a streamed request that every OpenAI-compatible server takes."""
    body: dict[str, object] = {"model": model}
    if not chat:
        body["prompt"] = prompt.text if prompt.token_ids is None else prompt.token_ids
    elif prompt.messages is not None:
        body["messages"] = prompt.messages
    else:
        body["messages"] = [{"role": "user", "content": prompt.text}]
    body["max_tokens"] = prompt.output_tokens
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    return body


def server_message(body: bytes) -> str:
    """The server's own words out of an error body, shortened to one line."""
    try:
        document: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return shorten(body[:4096].decode(errors="replace"))
    # {"error": {"message": ...}}, {"error": "..."}, {"message": ...} and FastAPI's {"detail": ...} are all in use.
    for key in ("error", "message", "detail"):
        if isinstance(document, dict) and key in document:
            document = document[key]
    return shorten(document[:4096] if isinstance(document, str) else body[:4096].decode(errors="replace"))


def shorten(text: str, limit: int = 160) -> str:
    """Text on one line without HTML tags, at most `limit` characters."""
    line = " ".join(_TAGS.sub(" ", text).split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
