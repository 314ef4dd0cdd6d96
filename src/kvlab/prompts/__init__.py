"""Prompts of the quality gate: 48 shipped with kvlab, or a user's own file."""

from __future__ import annotations

from pathlib import Path

from kvlab.core.errors import BadInput
from kvlab.core.quality import QualityPrompt
from kvlab.load import promptfile

SHIPPED = "quality.jsonl"


def load(path: str | Path | None = None) -> tuple[QualityPrompt, ...]:
    """Prompts from a file (`promptfile` says how it looks), or the shipped ones for None.

    Raises BadInput, naming the line, for a file that cannot be used.
    """
    if path is None:
        from importlib.resources import files

        text = files(__package__).joinpath(SHIPPED).read_text(encoding="utf-8")
        return tuple(_prompt(given) for given in promptfile.parse(text, Path(SHIPPED)))
    return tuple(_prompt(given) for given in promptfile.read(Path(path)))


def _prompt(given: promptfile.Given) -> QualityPrompt:
    if given.text is None:
        raise BadInput(f"{given.where} holds messages; the quality gate sends prompts (or texts) as they are")
    return QualityPrompt(given.id, given.kind, given.text)
