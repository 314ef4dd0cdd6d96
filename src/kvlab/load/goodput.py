"""Requests that were served within objectives."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.measure import RequestRow


class Objectives(msgspec.Struct, frozen=True, kw_only=True):
    """The longest that each may take, in milliseconds; None: no objective. The names are vLLM's."""

    ttft: float | None = None
    """Time to first token."""
    tpot: float | None = None
    """Time per output token after the first."""
    e2el: float | None = None
    """The whole request."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise BadInput(f"the objective {name}:{value:g} must be a number of milliseconds, not negative")

    @property
    def stated(self) -> bool:
        """Whether there is any."""
        return any(value is not None for value in (self.ttft, self.tpot, self.e2el))


def is_good(row: RequestRow, objectives: Objectives) -> bool:
    """Whether a request completed and met every objective, as `vllm bench serve --goodput` counts.

    An answer of one token has no time per token and meets that objective. Times count as they do in the row.
    """
    if row.error is not None or row.ttft is None or row.e2e is None:
        return False
    pairs = ((row.ttft, objectives.ttft), (row.tpot or 0.0, objectives.tpot), (row.e2e, objectives.e2el))
    return all(limit is None or seconds <= limit / 1000 for seconds, limit in pairs)


def goodput(rows: Sequence[RequestRow], duration: float, objectives: Objectives) -> float | None:
    """Good requests a second (vLLM's request_goodput); None without an objective."""
    return sum(is_good(row, objectives) for row in rows) / duration if objectives.stated else None
