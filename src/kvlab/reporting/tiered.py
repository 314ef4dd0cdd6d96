"""A plan's tiers and the machine's own memory, in the words of a terminal and of a page."""

from __future__ import annotations

from typing import NamedTuple

from kvlab.core.plan import LedgerLine, Plan
from kvlab.core.tiers import Tier
from kvlab.core.units import size
from kvlab.reporting import words

_KINDS = {"host": "host memory", "disk": "disk", "remote": "shared by servers"}


class TierRow(NamedTuple):
    """A tier in words."""

    name: str
    amount: str
    each: str
    """What one rank gets."""
    tokens: str
    requests: str
    pieces: str
    """The smallest piece that is found again."""
    flag: str
    because: str


def rows(plan: Plan) -> list[TierRow]:
    """The tiers of a plan, the fastest first; none for a plan without any."""
    return [_row(tier) for tier in plan.tiers]


def _row(tier: Tier) -> TierRow:
    return TierRow(
        name=f"{words.plain(tier.name)} ({_KINDS[tier.kind]})",
        amount=size(tier.bytes),
        each=size(tier.bytes_per_rank),
        tokens="not known" if tier.tokens is None else f"{tier.tokens:,}",
        requests="not known" if tier.requests is None else f"{tier.requests:,.2f}",
        pieces="not known" if tier.granularity is None else words.counted(tier.granularity, "token"),
        flag=words.plain(tier.flag),
        because=words.plain(tier.because),
    )


def caption(plan: Plan) -> str:
    """What the table of tiers shows."""
    context = f" of {plan.kv.context:,} tokens" if plan.kv.context is not None else ""
    return f"Tiers below the GPU's cache, and the requests{context} that they hold (computed)"


def is_sum(line: LedgerLine) -> bool:
    """Whether a line of the machine's memory sums those above it."""
    return line.name in ("host_needed", "host_left")
