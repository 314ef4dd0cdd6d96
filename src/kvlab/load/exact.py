"""Texts that an engine counts as exactly so many tokens."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from kvlab.core.engine import TokenApi
from kvlab.core.errors import BadInput, ServerRefused
from kvlab.load.datasets import RandomTokens, SharedPrefix
from kvlab.load.failures import connect_problem
from kvlab.load.pages import TOKENS_BYTES
from kvlab.load.pages import body as body_of
from kvlab.load.reply import server_message
from kvlab.load.server import Server
from kvlab.load.spec import Prompt
from kvlab.load.together import together

if TYPE_CHECKING:
    from aiohttp import ClientSession

_TRIES = 40
_STARTS = (
    "b",
    "bl",
    "d",
    "dr",
    "f",
    "g",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "ou")
_ENDS = ("", "", "", "n", "r", "s", "l", "nd", "m")


class Tokenizer(Protocol):
    """The model's tokenizer, wherever it runs."""

    async def ids(self, text: str, special: bool = True) -> list[int]:
        """Token ids of `text`; `special`: with those that the engine adds to every prompt."""

    async def text(self, ids: list[int]) -> str:
        """Text of token ids."""


class LocalTokenizer:
    """A tokenizer read from a file, for a server that does not tell its own."""

    def __init__(self, named: str) -> None:
        from kvlab.traces import tokenizer

        self._tokenizer = tokenizer(named).tokenizer

    async def ids(self, text: str, special: bool = True) -> list[int]:
        """Token ids of `text`; `special`: with those that the file adds to every prompt."""
        return self._tokenizer.encode(text, add_special_tokens=special).ids

    async def text(self, ids: list[int]) -> str:
        """Text of token ids."""
        return self._tokenizer.decode(ids)


class ServerTokenizer:
    """The engine's own tokenizer, over HTTP."""

    def __init__(self, session: ClientSession, server: Server, api: TokenApi) -> None:
        self._session = session
        self._server = server
        self._api = api

    async def ids(self, text: str, special: bool = True) -> list[int]:
        """Token ids of `text`; `special`: with those that the engine adds to every prompt."""
        return self._api.tokens(await self._post(*self._api.tokenize(self._server.model, text, special)))

    async def text(self, ids: list[int]) -> str:
        """Text of token ids."""
        return self._api.text(await self._post(*self._api.detokenize(self._server.model, ids)))

    async def _post(self, path: str, body: dict[str, object]) -> object:
        import aiohttp

        url = self._server.url + path
        try:
            async with self._session.post(url, data=msgspec.json.encode(body), allow_redirects=False) as response:
                answer = await body_of(response, TOKENS_BYTES)
                if response.status != 200:
                    raise ServerRefused(f"{url} answered {response.status}: {server_message(answer[:4096])}")
        except aiohttp.ClientConnectorError as problem:
            raise ServerRefused(f"no server at {url}: {connect_problem(problem)}") from None
        except (aiohttp.ClientError, TimeoutError) as problem:
            raise ServerRefused(f"{url} did not answer: {type(problem).__name__}") from None
        try:
            return msgspec.json.decode(answer)
        except (msgspec.DecodeError, RecursionError):
            raise ServerRefused(f"{url} did not answer with JSON: {server_message(answer[:200])}") from None


async def random_prompts(
    tokenizer: Tokenizer, data: RandomTokens, count: int, seed: str, done: Callable[[int], None]
) -> tuple[Prompt, ...]:
    """`count` prompts; the same seed and tokenizer give the same texts. Raises BadInput for impossible lengths."""

    async def one(index: int) -> Prompt:
        text = await exact_text(tokenizer, data.input_tokens, random.Random(f"{seed} {index}"))
        return _prompt(index, text, data.input_tokens, data.output_tokens)

    return await together(one, count, done)


async def shared_prefix_prompts(
    tokenizer: Tokenizer, data: SharedPrefix, count: int, seed: str, done: Callable[[int], None]
) -> tuple[Prompt, ...]:
    """`count` prompts that use the prefixes in turn. Raises BadInput for impossible lengths."""
    prefixes = [
        await exact_text(tokenizer, data.prefix_tokens, random.Random(f"{seed} prefix {index}"))
        for index in range(min(data.prefixes, count))
    ]
    tokens = data.prefix_tokens + data.suffix_tokens

    async def one(index: int) -> Prompt:
        source = random.Random(f"{seed} suffix {index}")
        text = await exact_text(tokenizer, tokens, source, head=prefixes[index % len(prefixes)])
        return _prompt(index, text, tokens, data.output_tokens)

    return await together(one, count, done)


async def exact_text(tokenizer: Tokenizer, tokens: int, source: random.Random, *, head: str = "") -> str:
    """Random words after `head` that make exactly `tokens` tokens, the first of which are those of `head`.

    Words are cut at a token, and the cut text is counted again: at the cut a tokenizer may merge what it split before.
    Raises BadInput when the engine adds more tokens than that, or no text is found.
    """
    start = await tokenizer.ids(head) if head else await added(tokenizer)
    room = tokens - len(start)
    if room < 1:
        raise BadInput(f"a prompt of {tokens} tokens has no room for text: the engine adds {len(start)} of its own")
    glue = " " if head else ""
    words: list[int] = []
    take = room
    for attempt in range(_TRIES):
        if attempt % 4 == 0:
            words = await tokenizer.ids(_words(source, room + 8), special=False)
            take = room
        if not 0 < take <= len(words):
            continue
        text = head + glue + (await tokenizer.text(words[:take])).strip()
        counted = await tokenizer.ids(text)
        if len(counted) == tokens and counted[: len(start)] == start:
            return text
        take += tokens - len(counted)
    raise BadInput(f"no text of exactly {tokens} tokens was found with the engine's tokenizer; try another length")


async def added(tokenizer: Tokenizer) -> list[int]:
    """The ids that the engine puts before every prompt."""
    with_special, without = await tokenizer.ids("a"), await tokenizer.ids("a", special=False)
    return with_special[: len(with_special) - len(without)]


def _words(source: random.Random, count: int) -> str:
    def syllable() -> str:
        return source.choice(_STARTS) + source.choice(_VOWELS) + source.choice(_ENDS)

    return " ".join("".join(syllable() for _ in range(source.choice((1, 1, 2, 3)))) for _ in range(count))


def _prompt(index: int, text: str, tokens: int, output_tokens: int) -> Prompt:
    return Prompt(id=str(index), text=text, output_tokens=output_tokens, expected_prompt_tokens=tokens)
