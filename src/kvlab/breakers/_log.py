"""A log's requests with their text, as far as they are looked at, and the log written again with causes fixed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvlab import traces
from kvlab.core.errors import BadInput
from kvlab.core.trace import Logged

MOST_REQUESTS = 2_000
MOST_TEXT = 32 << 20
"""Requests, and characters of them, that are looked at: the first ones of the log."""
MOST_REWRITTEN = 1 << 30
"""Characters of a log that is rewritten, which is done in memory."""


def requests(paths: Sequence[Path], form: str | None, *, everything: bool) -> tuple[list[Logged], bool]:
    """The first requests of the logs, or all of them, and whether those are all.

    Raises BadInput for a log that is too large to be rewritten.
    """
    found: list[Logged] = []
    text = 0
    for path in paths:
        for logged in traces.logged(path, form):
            text += len(logged.prompt or "")
            text += sum(len(str(item.get("content"))) for item in logged.messages or [])
            if everything and text > MOST_REWRITTEN:
                raise BadInput(f"--fix rewrites up to {MOST_REWRITTEN >> 20:,} MiB of text; give the log in parts")
            if not everything and (len(found) >= MOST_REQUESTS or text > MOST_TEXT):
                return found, False
            found.append(logged)
    return found, True


def lines(made: Sequence[Logged]) -> Iterator[str]:
    """The requests as lines of JSON: each record as it was, with the prompt that it now has."""
    for logged in made:
        yield json.dumps(traces.record_of(logged), ensure_ascii=False, default=str)


def check_target(path: str | Path, sources: Sequence[Path]) -> None:
    """Raises BadInput where the rewritten log cannot go: into no folder, or over a log that is read."""
    from kvlab.store import check_target as check

    check(path, "--fix")
    if any(Path(path).resolve() == source.resolve() for source in sources):
        raise BadInput(f"--fix {path} is the log itself; name another file")
