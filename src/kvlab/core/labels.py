"""What the two arms of an experiment are called: by what differs between them."""

from __future__ import annotations

from collections.abc import Callable

from kvlab.core.errors import shortened
from kvlab.core.nameless import nameless
from kvlab.core.plan import Ask, Plan

_DTYPES = {"kv_dtype", "kv_dtype_k", "kv_dtype_v"}
_UNTOLD = {"engine_args", "any_engine"}
"""Flags are told one by one, and how an engine was chosen is no setting of it."""
_OWN = "the engine's own"
_LONGEST = 60
"""Characters of a value: a label stands in titles and in columns of tables."""


def labels(asks: tuple[Ask, Ask], plans: tuple[Plan, Plan]) -> tuple[str, str]:
    """The names of arms A and B: the cache dtype where it differs, then every setting that is not the same in both.

    Arms that differ in nothing are called by their cache dtype. A label goes into files to commit: it holds no path.
    """
    dtypes = (plans[0].kv.dtype, plans[1].kv.dtype)
    said = _UNTOLD if dtypes[0] == dtypes[1] else _UNTOLD | _DTYPES
    fields = [name for name in Ask.__struct_fields__ if name not in said]
    flags = list(dict.fromkeys(name.replace("_", "-") for ask in asks for name, _ in ask.engine_args))
    named = [dtypes] if dtypes[0] != dtypes[1] else []
    named += _differing(fields, [{name: getattr(ask, name) for name in fields} for ask in asks], _field)
    named += _differing(flags, [{name: _values(ask, name) for name in flags} for ask in asks], _flag)
    if not named:
        return dtypes
    return ", ".join(a for a, _ in named), ", ".join(b for _, b in named)


def _differing(
    names: list[str], arms: list[dict[str, object]], told: Callable[[str, object], str]
) -> list[tuple[str, str]]:
    a, b = arms
    return [(told(name, a[name]), told(name, b[name])) for name in names if a[name] != b[name]]


def _values(ask: Ask, flag: str) -> str | None:
    """All values of a flag, which may stand there several times; None without one."""
    found = [value for name, value in ask.engine_args if name.replace("_", "-") == flag]
    return " ".join(found) if found else None


def _field(name: str, value: object) -> str:
    words = name.replace("_", " ")
    return f"{words} {'on' if value else 'off'}" if isinstance(value, bool) else _flag(words, value)


def _flag(name: str, value: object) -> str:
    told = _OWN if value is None else shortened(nameless(str(value)), _LONGEST) or "given"
    return f"{name} {told}"
