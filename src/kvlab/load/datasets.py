"""What to send: random texts of an exact length, shared prefixes, or what a file holds. `sets/` makes the prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

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


class ShareGpt(msgspec.Struct, frozen=True, kw_only=True, tag="sharegpt", tag_field="name"):
    """Conversations in ShareGPT's JSON: the first turn of each, or all turns one after the other."""

    path: str
    output_tokens: int | None = None
    """None: as many as the recorded answer has, by the engine's tokenizer."""
    turns: Literal["first", "all"] = "first"
    """"all": the next turn is sent when the answer to the one before has arrived."""
    history: Literal["server", "recorded"] = "server"
    """Whose answers a later turn repeats: the server's own, or the file's."""

    def __post_init__(self) -> None:
        if self.output_tokens is not None:
            _at_least_one(self, "output_tokens")


class RequestLog(msgspec.Struct, frozen=True, kw_only=True, tag="log", tag_field="name"):
    """A log of requests with their messages, prompts or token ids, in a format that `kvlab.traces` reads."""

    path: str
    output_tokens: int | None = None
    """None: as many as each request got, or asked for."""
    format: str | None = None
    scale_time: float = 1.0

    def __post_init__(self) -> None:
        _above_zero(self, "scale_time")
        if self.output_tokens is not None:
            _at_least_one(self, "output_tokens")


class TraceFile(msgspec.Struct, frozen=True, kw_only=True, tag="trace", tag_field="name"):
    """A trace of times, lengths and, if it has them, block ids, in a format that `kvlab.traces` reads.

    Texts are made up so that prompts have the trace's lengths and share what its block ids share. `scale_time`
    multiplies the times, `scale_tokens` all lengths.
    """

    path: str
    format: str | None = None
    output_tokens: int | None = None
    """None: as the trace says."""
    scale_time: float = 1.0
    scale_tokens: float = 1.0

    def __post_init__(self) -> None:
        _above_zero(self, "scale_time", "scale_tokens")
        if self.output_tokens is not None:
            _at_least_one(self, "output_tokens")


Dataset = RandomTokens | SharedPrefix | PromptsFile | ShareGpt | RequestLog | TraceFile


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
    return hashlib.sha256(msgspec.json.encode([_stated(prompt) for prompt in prompts])).hexdigest()


def _stated(prompt: Prompt) -> dict[str, object]:
    """The prompt's fields; of those that came after the first release only what is set, so that hashes stay."""
    fields = msgspec.structs.asdict(prompt)
    return {name: value for name, value in fields.items() if name not in _LATER or value}


_LATER = ("follows", "continues", "more")


def _at_least_one(dataset: msgspec.Struct, *names: str) -> None:
    for name in names:
        value = getattr(dataset, name)
        if value < 1:
            raise BadInput(f"{name.replace('_', ' ')} {value} must be at least 1")


def _above_zero(dataset: msgspec.Struct, *names: str) -> None:
    for name in names:
        value = getattr(dataset, name)
        if not 0 < value < float("inf"):
            raise BadInput(f"--{name.replace('_', '-')} {value:g} must be above 0")
