"""Errors whose text is meant for the user: one line that says what, where and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class KvlabError(Exception):
    """Show this line to the user and exit with `exit_code`."""

    exit_code = 2


class BadInput(KvlabError):
    """The request or its input is wrong."""


class MissingFact(BadInput):
    """A config lacks a key that the cache size depends on."""


class UnknownModel(BadInput):
    """No family claims the config; the message names its model_type and the keys that were not understood."""


class UnknownGpu(BadInput):
    """No GPU of that name is in facts/gpus.toml."""


class EngineFailed(KvlabError):
    """An engine did not start, died, or answered something that cannot be used."""


class ServerRefused(KvlabError):
    """A server could not be reached, or answered with something other than what was asked for."""


def shortened(text: str, limit: int = 60) -> str:
    """`text` for an error message: at most `limit` characters, the last three dots where it was cut."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def nearest(name: str, known: Iterable[str]) -> str:
    """Words that complete an error message: the closest known names, or all of them when none is close."""
    import difflib

    names = list(known)
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names)}"
