"""Flags of a launch command as words of its argv."""

from __future__ import annotations

from collections.abc import Iterable

from kvlab.core.plan import Flag


def words(flags: Iterable[Flag]) -> list[str]:
    """Each flag and, unless it is a switch (its value is None), its value."""
    return [word for flag in flags for word in ((flag.flag,) if flag.value is None else (flag.flag, flag.value))]


def passed_on(name: str, value: str) -> Flag:
    """An `--engine-arg` without an option of its own, for engines whose switches take no value ("true")."""
    bare = value.strip().lower() in ("", "true")
    return Flag(f"--{name}", None if bare else value, "passed on as given")
