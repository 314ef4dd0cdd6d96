"""Files of prompts, for a load and for the quality gate alike.

`.jsonl`: one JSON object a line with `prompt` (or `text`), or with `messages`; if wanted `id`, `kind` and
`output_tokens`. Any other name: plain text, one prompt a line. Blank lines are skipped in both. A prompt without an id
is called by its line ("line-3").
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvlab import store
from kvlab.core.errors import BadInput, shortened

OWN = "own"
"""The kind of a prompt that names none."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt as the file states it: a text, or chat messages. `where` names its line in errors."""

    where: str
    id: str
    text: str | None = None
    messages: tuple[dict[str, object], ...] | None = None
    output_tokens: int | None = None
    kind: str = OWN


class _Line(msgspec.Struct):
    """A line of a JSONL file."""

    prompt: str | None = None
    text: str | None = None
    messages: tuple[dict[str, object], ...] | None = None
    output_tokens: int | None = None
    id: str | int | None = None
    kind: str = OWN


def read(path: Path) -> tuple[Given, ...]:
    """The prompts of a file, in order.

    Raises BadInput for a file that is missing, no regular file, empty or not text, and names the first line that cannot
    be used.
    """
    data = store.read_bytes(path, "prompts file")
    try:
        return parse(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError as problem:
        raise BadInput(f"{path} is not UTF-8 text (byte {problem.start}); save it as UTF-8") from None


def parse(text: str, path: Path) -> tuple[Given, ...]:
    """The prompts in `text`; `path` decides the format and names the file in errors."""
    jsonl, found = path.suffix.lower() == ".jsonl", list[Given]()
    # Only line feeds end a line: str.splitlines would also cut at the separators that JSON allows inside a text.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where, name = f"{path} line {number}", f"line-{number}"
            plain = Given(where=where, id=name, text=line.rstrip("\r"))
            found.append(_object(where, line, name) if jsonl else plain)
    if not found:
        raise BadInput(f"{path} holds no prompt; write one a line, or JSON objects with a prompt in a .jsonl file")
    seen: set[str] = set()
    for given in found:
        if given.id in seen:
            raise BadInput(f"{given.where} is the second prompt with the id {shortened(given.id)!r}; ids pair answers")
        seen.add(given.id)
    return tuple(found)


def _object(where: str, line: str, name: str) -> Given:
    try:
        given = msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as problem:
        raise BadInput(f"{where} is not a JSON object with a prompt: {problem}") from None
    stated = [value for value in (given.prompt, given.text, given.messages) if value is not None]
    if len(stated) != 1:
        raise BadInput(f"{where} must hold either prompt (or text), or messages")
    if not stated[0]:
        raise BadInput(f"{where} holds an empty prompt")
    if given.output_tokens is not None and not 1 <= given.output_tokens <= 1 << 40:
        raise BadInput(f"{where} asks for {given.output_tokens} output tokens; at least 1 is needed")
    return Given(
        where=where,
        id=name if given.id is None else str(given.id),
        text=given.text if given.prompt is None else given.prompt,
        messages=given.messages,
        output_tokens=given.output_tokens,
        kind=given.kind,
    )
