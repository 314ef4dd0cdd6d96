"""What to send: random texts of an exact length, shared prefixes, or a file of prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kvlab.core.errors import BadInput
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


class _Line(msgspec.Struct):
    """A line of a JSONL file."""

    prompt: str | None = None
    text: str | None = None
    messages: tuple[dict[str, object], ...] | None = None
    output_tokens: int | None = None
    id: str | int | None = None


def read_prompts(path: Path, output_tokens: int, endpoint: Endpoint) -> tuple[Prompt, ...]:
    """Prompts of a file, in order.

    `.jsonl`: one JSON object a line with `prompt` (or `text`), or with `messages` for the chat endpoint; optional
    `output_tokens` and `id`. Any other name: plain text, one prompt a line. Blank lines are skipped in both.

    Raises BadInput for a file that is missing, empty or not text, and names the first line that cannot be used.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError:
        raise BadInput(f"no prompts file {path}") from None
    except UnicodeDecodeError as problem:
        raise BadInput(f"{path} is not UTF-8 text (byte {problem.start}); save it as UTF-8") from None
    except OSError as problem:
        raise BadInput(f"cannot read {path}: {problem.strerror}") from None
    jsonl = path.suffix == ".jsonl"
    found: list[Prompt] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        if jsonl:
            found.append(_prompt(where, line, len(found), output_tokens))
        else:
            found.append(Prompt(id=str(len(found)), text=line.rstrip("\r"), output_tokens=output_tokens))
        if endpoint == "completions" and found[-1].messages is not None:
            raise BadInput(f"{where} holds messages, which need the chat endpoint")
    if not found:
        raise BadInput(f"{path} holds no prompt; write one a line, or JSON objects with a prompt in a .jsonl file")
    return tuple(found)


def _prompt(where: str, line: str, index: int, output_tokens: int) -> Prompt:
    try:
        given = msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, UnicodeEncodeError) as problem:
        raise BadInput(f"{where} is not a JSON object with a prompt: {problem}") from None
    text = given.text if given.prompt is None else given.prompt
    if (text is None) == (given.messages is None):
        raise BadInput(f"{where} must hold either prompt (or text), or messages")
    if not (text if given.messages is None else given.messages):
        raise BadInput(f"{where} holds an empty prompt")
    tokens = output_tokens if given.output_tokens is None else given.output_tokens
    if tokens < 1:
        raise BadInput(f"{where} asks for {tokens} output tokens; at least 1 is needed")
    name = str(index if given.id is None else given.id)
    return Prompt(id=name, text=text, messages=given.messages, output_tokens=tokens)


def fingerprint(prompts: Sequence[Prompt]) -> str:
    """SHA-256 of what is sent: equal for two runs that sent the same prompts in the same order."""
    return hashlib.sha256(msgspec.json.encode(prompts)).hexdigest()


def _at_least_one(dataset: msgspec.Struct, *names: str) -> None:
    for name in names:
        value = getattr(dataset, name)
        if value < 1:
            raise BadInput(f"{name.replace('_', ' ')} {value} must be at least 1")
