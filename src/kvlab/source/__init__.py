"""Where models come from: a Hub id, a folder, a config.json or a GGUF file -> Model, Layout and weight bytes."""

from __future__ import annotations

from pathlib import Path

from kvlab.core.errors import BadInput
from kvlab.source.loaded import Loaded

__all__ = ["Loaded", "load"]


def load(text: str, *, revision: str | None = None) -> Loaded:
    """The model behind `text`: a file (config.json under any name, or GGUF), a folder, or a Hub id.

    `revision` is a branch, tag or commit of the Hub id; `org/name@revision` says the same. Raises BadInput for what
    cannot be read, MissingFact for a config that says too little, UnknownModel for one that no family claims.
    """
    from kvlab.source import files

    if not text.strip():
        raise BadInput("the source is empty; give a Hub id, a folder, a config.json or a GGUF file")
    if "://" in text:
        # Its user name and password must not be repeated.
        raise BadInput("the source is an address; give a Hub id (org/name), a folder, a config.json or a GGUF file")
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise BadInput(f"{text[:200]} names a home folder that does not exist; check the path") from None
    try:
        if path.is_dir():
            return files.load_folder(path)
        if path.exists():
            return files.load_file(path)
    except (OSError, ValueError) as error:
        raise BadInput(f"{text[:200]!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    from kvlab.source import hub

    if hub.looks_like_id(text):
        return hub.load_hub(text, revision)
    raise files.missing(path)
