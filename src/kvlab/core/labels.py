"""What the two arms of an experiment are called: by what differs between them."""

from __future__ import annotations

from collections.abc import Callable

from kvlab.core.nameless import nameless
from kvlab.core.plan import Ask, Plan

_DTYPES = {"kv_dtype", "kv_dtype_k", "kv_dtype_v"}
_OWN = "the engine's own"


def labels(asks: tuple[Ask, Ask], plans: tuple[Plan, Plan]) -> tuple[str, str]:
    """The names of arms A and B: the cache dtype where it differs, then every setting that is not the same in both.

    Arms that differ in nothing are called by their cache dtype. A label goes into files to commit: it holds no path.
    """
    dtypes = (plans[0].kv.dtype, plans[1].kv.dtype)
    said = {"engine_args"} if dtypes[0] == dtypes[1] else {"engine_args", *_DTYPES}
    fields = [name for name in Ask.__struct_fields__ if name not in said]
    flags = list(dict.fromkeys(name for ask in asks for name, _ in ask.engine_args))
    named = [dtypes] if dtypes[0] != dtypes[1] else []
    named += _differing(fields, [{name: getattr(ask, name) for name in fields} for ask in asks], _field)
    named += _differing(flags, [{name: ask.arg(name) for name in flags} for ask in asks], _flag)
    if not named:
        return dtypes
    return ", ".join(a for a, _ in named), ", ".join(b for _, b in named)


def _differing(
    names: list[str], arms: list[dict[str, object]], told: Callable[[str, object], str]
) -> list[tuple[str, str]]:
    a, b = arms
    return [(told(name, a[name]), told(name, b[name])) for name in names if a[name] != b[name]]


def _field(name: str, value: object) -> str:
    words = name.replace("_", " ")
    if isinstance(value, bool):
        return f"{words} {'on' if value else 'off'}"
    return f"{words} {_OWN if value is None else nameless(str(value))}"


def _flag(name: str, value: object) -> str:
    return f"{name} {_OWN if value is None else nameless(str(value))}"
