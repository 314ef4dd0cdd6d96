"""Prompts of the quality gate: 48 shipped with kvlab, or a user's own file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.quality import QualityPrompt

SHIPPED = "quality.jsonl"


class _Line(msgspec.Struct):
    prompt: str | None = None
    text: str | None = None
    id: str | int | None = None
    kind: str = "own"


def load(path: str | Path | None = None) -> tuple[QualityPrompt, ...]:
    """Prompts from a file, or the shipped ones for None.

    A file ending in .jsonl holds one object a line: `prompt` (or `text`), and if wanted `id` and `kind`. Any other file
    holds one prompt a line. Blank lines are skipped. Raises BadInput, naming the line, for a file that cannot be used.
    """
    if path is None:
        from importlib.resources import files

        return _read(files(__package__).joinpath(SHIPPED).read_text(encoding="utf-8"), Path(SHIPPED))
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise BadInput(f"the prompts file {path} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"the prompts file {path} is not UTF-8 text") from None
    return _read(text.removeprefix("\ufeff"), path)


def _read(text: str, path: Path) -> tuple[QualityPrompt, ...]:
    # Only line feeds end a line: str.splitlines would also cut at the separators that JSON allows inside a text.
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise BadInput(f"the prompts file {path} holds no prompt; write one prompt a line, or JSON lines with a prompt")
    if path.suffix.lower() != ".jsonl":
        return tuple(QualityPrompt(f"line-{number}", "own", line) for number, line in lines)
    prompts = tuple(_prompt(line, number, path) for number, line in lines)
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.id in seen:
            raise BadInput(f"the prompts file {path} has two prompts with the id {prompt.id!r}; ids pair the answers")
        seen.add(prompt.id)
    return prompts


def _prompt(line: str, number: int, path: Path) -> QualityPrompt:
    try:
        found = msgspec.json.decode(line, type=_Line)
    except msgspec.DecodeError as problem:
        raise BadInput(f"line {number} of {path} is not a JSON object with a prompt: {problem}") from None
    text = found.text if found.prompt is None else found.prompt
    if not text:
        raise BadInput(f"line {number} of {path} has no prompt, or an empty one")
    return QualityPrompt(f"line-{number}" if found.id is None else str(found.id), found.kind, text)
