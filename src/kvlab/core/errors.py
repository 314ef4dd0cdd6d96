"""Errors whose text is meant for the user: one line that says what, where and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_LONGEST = 1200
"""Characters of an error: names from a file or a server may be of any length."""


class KvlabError(Exception):
    """Show this line to the user and exit with `exit_code`."""

    exit_code = 2

    def __str__(self) -> str:
        text = super().__str__()
        # What to do stands at the end.
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 300]} ... {text[-295:]}"


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


def nearest(name: str, known: Iterable[str], most: int = 8) -> str:
    """Words that complete an error message: the closest known names, or the first `most` of all when none is close."""
    import difflib

    names = list(known)
    close = difflib.get_close_matches(str(name)[:100].lower(), names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {listed(names, most)}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """The first `most` names, and how many more there are: "a, b and 5 more"."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is most likely a misspelling of; None when it is one itself, or close to none."""
    import difflib

    names = list(known)
    if name in names or len(name) < 6:
        return None
    return next(iter(difflib.get_close_matches(name[:100].lower(), names, n=1, cutoff=0.87)), None)
