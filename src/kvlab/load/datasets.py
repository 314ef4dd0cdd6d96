"""What to send: random texts of an exact length, shared prefixes, or a file of prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kvlab.core.errors import BadInput
from kvlab.load import promptfile
from kvlab.load.spec import Endpoint, Prompt


class RandomTokens(msgspec.Struct, frozen=True, kw_only=True, tag="random", tag_field="name"):
    """Texts that share nothing, of exactly `input_tokens` tokens each as the engine counts them."""

    input_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        _at_least_one(self, "input_tokens", "output_tokens")


class SharedPrefix(msgspec.Struct, frozen=True, kw_only=True, tag="shared-prefix", tag_field="name"):
    """`prefixes` texts of `prefix_tokens` tokens, used in turn, each time with another suffix of `suffix_tokens`."""

    prefix_tokens: int
    suffix_tokens: int
    output_tokens: int
    prefixes: int = 1

    def __post_init__(self) -> None:
        _at_least_one(self, "prefix_tokens", "suffix_tokens", "output_tokens", "prefixes")


class PromptsFile(msgspec.Struct, frozen=True, kw_only=True, tag="prompts", tag_field="name"):
    """A file of prompts: see `read_prompts` for the two formats."""

    path: str
    output_tokens: int

    def __post_init__(self) -> None:
        _at_least_one(self, "output_tokens")


Dataset = RandomTokens | SharedPrefix | PromptsFile


def read_prompts(path: Path, output_tokens: int, endpoint: Endpoint) -> tuple[Prompt, ...]:
    """Prompts of a file (`promptfile` says how it looks), in order; `output_tokens` where a prompt states none.

    Raises BadInput for a file that cannot be used, and for messages that the endpoint does not take.
    """
    found = []
    for given in promptfile.read(path):
        if endpoint == "completions" and given.messages is not None:
            raise BadInput(f"{given.where} holds messages, which need the chat endpoint")
        tokens = output_tokens if given.output_tokens is None else given.output_tokens
        found.append(Prompt(id=given.id, text=given.text, messages=given.messages, output_tokens=tokens))
    return tuple(found)


def fingerprint(prompts: Sequence[Prompt]) -> str:
    """SHA-256 of what is sent: equal for two runs that sent the same prompts in the same order."""
    return hashlib.sha256(msgspec.json.encode(prompts)).hexdigest()


def _at_least_one(dataset: msgspec.Struct, *names: str) -> None:
    for name in names:
        value = getattr(dataset, name)
        if value < 1:
            raise BadInput(f"{name.replace('_', ' ')} {value} must be at least 1")
