"""What a running server's own pages say about it, beside its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from kvlab.core.observation import Seen, Setting
from kvlab.core.units import MOST


class Described(NamedTuple):
    """The server's version, as the engine writes it, and the settings and sizes that its pages state."""

    version: str | None = None
    seen: tuple[Seen, ...] = ()
    settings: tuple[Setting, ...] = ()
    """Settings that the pages state, in the words of a request."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """about.py: the pages on which the engine describes itself. They are asked for once, and not polled."""

    paths: tuple[str, ...] = ()
    """Pages beside those of the metrics; one that is not served says nothing."""
    telltale: str | None = None
    """A path that no other engine serves, where the list of models does not name the engine."""
    read: Callable[[Mapping[str, str]], Described]
    """Texts by path, those of the metrics included -> what they say. A page that is not what it is says nothing."""


def field(page: str | None, *keys: str | int) -> Any:
    """The value under those keys of a JSON page; None when there is none."""
    try:
        value = msgspec.json.decode(page or "null")
    except (msgspec.DecodeError, RecursionError):
        return None
    for key in keys:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def version_of(page: str | None, key: str = "version") -> str | None:
    """A version as a page states it; None when it is no short word."""
    value = field(page, key)
    return value if isinstance(value, str) and 0 < len(value) <= 60 and value.isprintable() else None


def stated(name: str, unit: str, value: object, line: str) -> tuple[Seen, ...]:
    """One number above 0, or one short word, read at `line` ("/props total_slots"); nothing when it is neither."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return ()
    if isinstance(value, str):
        fits = unit == "word" and 0 < len(value) <= 60 and value.isprintable()
    else:
        fits = unit != "word" and 0 < value <= MOST
    return (Seen(name=name, value=value, unit=unit, line=line),) if fits else ()
