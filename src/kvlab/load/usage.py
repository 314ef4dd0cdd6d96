"""Whether the client itself was what limited a run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from kvlab.load.spec import ClientUse

if TYPE_CHECKING:
    from kvlab.core.measure import RequestRow
    from kvlab.load.sending import Sent

BUSY = 0.8
"""Share of the run from which a loop holds the load back: work that waits for it then waits four times its length."""
LAG_SECONDS = 0.01
LAG_SHARE = 0.1
"""Of the median time to first token: a lag above both blurs what is measured."""
SHORTEST = 1.0
"""Seconds of a run that tells something: a shorter one is all beginning and end."""


def client_use(parts: Sequence[Sent], rows: Sequence[RequestRow], duration: float, waits: bool) -> ClientUse:
    """The parts of all processes as one account, with the verdict.

    The client was the bottleneck when a loop was busy for BUSY of the run, or when one arrival in a hundred was
    noticed later than LAG_SECONDS and later than LAG_SHARE of the median time to first token. `waits`: whether
    requests keep a schedule without a cap, so that a late one was held up by the client alone.
    """
    busiest = max(parts, key=lambda part: part.busy_share)
    slowest = max(parts, key=lambda part: part.lag_p99)
    firsts = [row.ttft for row in rows if row.ttft is not None]
    because = []
    if busiest.busy_share >= BUSY:
        because.append(f"its event loop was busy for {busiest.busy_share:.0%} of the run")
    if firsts and slowest.lag_p99 > max(LAG_SECONDS, LAG_SHARE * median(firsts)):
        because.append(f"one arrival in a hundred was noticed {slowest.lag_p99 * 1000:.0f} ms late or later")
    if because and busiest.busy_share > 2 * busiest.cpu_seconds / duration:
        because.append("it was kept from the processor for most of that by other programs")
    return ClientUse(
        processes=len(parts),
        cpu_seconds=sum(part.cpu_seconds for part in parts),
        cpu_share=min(1.0, max(part.cpu_seconds for part in parts) / duration),
        loop_busy_share=busiest.busy_share,
        lag_mean=max(part.lag_mean for part in parts),
        lag_p99=slowest.lag_p99,
        late_p99=_late(rows) if waits else None,
        bottleneck=None if duration < SHORTEST else bool(because),
        because=" and ".join(because),
    )


def _late(rows: Sequence[RequestRow]) -> float | None:
    late = sorted(row.sent - row.scheduled for row in rows if not row.retried and not row.cancelled)
    return late[min(len(late) - 1, round(0.99 * len(late)))] if late else None
