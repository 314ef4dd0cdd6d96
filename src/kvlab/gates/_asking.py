"""How the parts with exact answers send their prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvlab.core.gate import Side
from kvlab.load.spec import Prompt


class Said(NamedTuple):
    """An answer, or why there is none."""

    text: str | None
    error: str | None


def ask(side: Side, prompts: Sequence[Prompt], stop: tuple[str, ...], done: Callable[[int], None]) -> list[Said]:
    """The server's answers in order, each at most to a stop; `done` is told how many have come.

    Raises ServerRefused when the server cannot be reached or answers nothing at all.
    """
    from kvlab.load.runner import run_load
    from kvlab.load.spec import LoadSpec

    spec = LoadSpec(
        concurrency=side.options.concurrency,
        ignore_eos=False,
        temperature=side.temperature,
        keep_text=True,
        # A server may take four stops at most.
        extra={"seed": 0, "stop": list(stop[:4])},
    )
    result = run_load(side.url, prompts, spec, progress=lambda at: done(at.done))
    return [Said(None if row.error else row.text or "", row.error) for row in result.rows]
