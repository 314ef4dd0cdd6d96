"""A log's requests with their text, as far as they are looked at, and the log written again with causes fixed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvlab import traces
from kvlab.core.errors import BadInput
from kvlab.core.trace import Logged

MOST_REQUESTS = 5_000
MOST_TEXT = 64 << 20
"""Requests, and characters of them, that are looked at: the first ones of the log."""


def requests(paths: Sequence[Path], form: str | None) -> tuple[list[Logged], bool]:
    """The first requests of the logs, and whether those are all. Raises BadInput for a format without text."""
    found: list[Logged] = []
    text = 0
    for path in paths:
        for logged in traces.logged(path, form):
            size = len(logged.prompt or "") + sum(len(str(item.get("content"))) for item in logged.messages or [])
            if len(found) >= MOST_REQUESTS or text + size > MOST_TEXT:
                return found, False
            found.append(logged)
            text += size
    return found, True


def lines(made: Sequence[Logged]) -> Iterator[str]:
    """The requests as lines of JSON, as an OpenAI-style server would take them."""
    for logged in made:
        body: dict[str, object] = {}
        if logged.time is not None:
            body["timestamp"] = logged.time
        if logged.tools:
            body["tools"] = logged.tools
        if logged.messages is not None:
            body["messages"] = logged.messages
        elif logged.prompt is not None:
            body["prompt"] = logged.prompt
        else:
            body["prompt_token_ids"] = logged.ids
        if logged.answer_tokens is not None:
            body["usage"] = {"completion_tokens": logged.answer_tokens}
        yield json.dumps(body, ensure_ascii=False)


def check_target(path: str | Path, sources: Sequence[Path]) -> None:
    """Raises BadInput where the rewritten log cannot go: into no folder, or over a log that is read."""
    from kvlab.store import check_target as check

    check(path, "--fix")
    if any(Path(path).resolve() == source.resolve() for source in sources):
        raise BadInput(f"--fix {path} is the log itself; name another file")
