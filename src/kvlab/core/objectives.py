"""Objectives of latency, as `ttft:500` states one: no request may take longer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from kvlab.core.errors import BadInput, nearest, shortened
from kvlab.core.measure import RequestRow

Timed = Literal["ttft", "tpot", "e2el"]
"""The three that `vllm bench serve --goodput` knows; e2el is the whole request."""


class Objective(msgspec.Struct, frozen=True):
    """A latency that a request must not exceed, in milliseconds."""

    metric: Timed
    limit_ms: float

    @property
    def text(self) -> str:
        """As it is written: ttft:500."""
        return f"{self.metric}:{self.limit_ms:g}"


def objective(text: str) -> Objective:
    """ "ttft:500" (milliseconds) as a value; e2e is e2el. Raises BadInput for anything else."""
    name, colon, limit = text.strip().lower().partition(":")
    name = "e2el" if name == "e2e" else name
    for metric in get_args(Timed):
        if name == metric:
            break
    else:
        raise BadInput(
            f"objective {shortened(text)!r}: {nearest(name, get_args(Timed))}; write ttft:500 (milliseconds)"
        )
    try:
        limit_ms = float(limit.removesuffix("ms"))
    except ValueError:
        limit_ms = 0.0
    if not colon or not 0 < limit_ms < float("inf"):
        raise BadInput(f"objective {shortened(text)!r} has no limit in milliseconds; write {name}:500")
    return Objective(metric, limit_ms)


def objectives(texts: Iterable[str]) -> tuple[Objective, ...]:
    """Several, each `NAME:MS` or a list of them with commas or blanks. Raises BadInput for one that comes twice."""
    found: dict[str, Objective] = {}
    for text in texts:
        for word in text.replace(",", " ").split():
            one = objective(word)
            if one.metric in found:
                raise BadInput(f"objective {one.metric} is given twice ({found[one.metric].text} and {one.text})")
            found[one.metric] = one
    return tuple(found.values())


def meets(row: RequestRow, asked: Iterable[Objective]) -> bool:
    """Whether a request completed within every objective.

    As in `vllm bench serve`, a limit that is reached is met, and an answer of one token has no time per output token
    and meets any. Times that count from the scheduled start, as the rows of an open loop do, hold the client to the
    same clock as the user.
    """
    if row.error is not None:
        return False
    taken = {"ttft": row.ttft, "tpot": row.tpot, "e2el": row.e2e}
    for one in asked:
        seconds = taken[one.metric]
        if seconds is None:
            if one.metric != "tpot" or (row.output_tokens or 0) > 1:
                return False
        elif seconds > one.limit_ms / 1000:
            return False
    return True


def goodput(rows: Sequence[RequestRow], duration: float, asked: Sequence[Objective]) -> float | None:
    """Requests a second that met every objective (vLLM's request_goodput); None without an objective."""
    return sum(meets(row, asked) for row in rows) / duration if asked else None
