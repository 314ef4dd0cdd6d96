"""Queues whose capacity is known, as rows that a load run would leave: no server, no clock."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import NamedTuple

from kvlab.core.bracket import Next, Search, Stop, following
from kvlab.core.measure import PoolUse, RequestRow
from kvlab.core.objectives import Objective
from kvlab.core.points import Round, Terms, point, seen
from kvlab.core.sweep import SweepPoint
from kvlab.load.schedule import due_times
from kvlab.load.spec import LoadSpec

TOKENS = 8


class Queue(NamedTuple):
    """`servers` places that work in the order of arrival; `service` draws a time."""

    servers: int
    service: Callable[[random.Random], float]

    def open(self, rate: float, count: int, seed: int) -> list[RequestRow]:
        """A Poisson process of `rate`."""
        source, free = random.Random(f"service {seed}"), [0.0] * self.servers
        rows = []
        for index, due in enumerate(due_times(count, LoadSpec(rate=rate, seed=seed)) or ()):
            start = max(due, heapq.heappop(free))
            rows.append(_row(index, due, start, self.service(source)))
            heapq.heappush(free, rows[-1].done or 0.0)
        return rows

    def closed(self, clients: int, count: int, seed: int) -> list[RequestRow]:
        """`clients` that each send when their last answer has come."""
        source, free, idle = random.Random(f"service {seed}"), [0.0] * self.servers, [0.0] * clients
        rows = []
        for index in range(count):
            sent = heapq.heappop(idle)
            start = max(sent, heapq.heappop(free))
            rows.append(_row(index, sent, start, self.service(source)))
            heapq.heappush(free, rows[-1].done or 0.0)
            heapq.heappush(idle, rows[-1].done or 0.0)
        return rows


def _row(index: int, sent: float, start: float, service: float) -> RequestRow:
    gap = service / TOKENS
    return RequestRow(
        index=index,
        prompt_id=str(index),
        scheduled=sent,
        sent=sent,
        first=start + gap,
        done=start + service,
        ttft=start + gap - sent,
        tpot=gap,
        e2e=start + service - sent,
        itls=(gap,) * (TOKENS - 1),
        prompt_tokens=10,
        output_tokens=TOKENS,
    )


def sweep(queue: Queue, search: Search, objectives: tuple[Objective, ...], seed: int) -> tuple[list[SweepPoint], Stop]:
    """The whole search on a queue, as the command runs it on a server."""
    terms = Terms(search, objectives)
    rounds: dict[float, list[Round]] = {}
    points: dict[float, SweepPoint] = {}
    while True:
        step = following(search, [seen(one) for one in points.values()])
        if isinstance(step, Stop):
            return sorted(points.values(), key=lambda one: one.load), step
        rounds.setdefault(step.load, []).append(look(queue, search, step, seed))
        points[step.load] = point(rounds[step.load], terms)


def look(queue: Queue, search: Search, step: Next, seed: int) -> Round:
    """One round."""
    own = random.Random(f"{seed} {step.load} {step.look}").randrange(1 << 30)
    if search.over == "rate":
        rows = queue.open(step.load, step.requests, own)
    else:
        rows = queue.closed(int(step.load), step.requests, own)
    return Round(
        load=step.load,
        look=step.look,
        seed=own,
        duration=max(row.done or 0.0 for row in rows),
        rows=tuple(rows),
        pool=PoolUse(),
        model="m",
        engine=None,
    )
