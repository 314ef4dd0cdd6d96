"""Which load to try next: doubling until the objective fails or throughput no longer rises, then bisection.

A point meets the objectives only if the low end of Wilson's interval of its goodput share reaches the target, and fails
if the high end is below; otherwise more requests are sent there, up to a bound. Looking several times would find an
extreme share by chance more often than once: each of K looks is taken at 1 - 0.05 / K (Bonferroni), so that all of a
point's looks together err in at most 5 %.

Requests that wait in one queue meet or miss together, so a sample is worth fewer requests than it has: as many as it
holds correlation times.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.quality import Interval
from kvlab.core.statistics import LEVEL, wilson
from kvlab.core.sweep import Over, State

RISES = 1.05
"""Throughput that grows by less than 5 % over a doubling of the load no longer rises."""
FLAT = 2
"""Such doublings in a row end the search: one may be noise, and a knee needs points on both sides."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look and how closely."""

    over: Over
    low: float = 1.0
    high: float = 256.0
    points: tuple[float, ...] = ()
    """These loads and no others; empty: adaptive."""
    requests: int = 128
    """Requests of the first look at a point. In a closed loop more when many are in flight."""
    most_requests: int = 512
    """Requests at one point, all looks together."""
    target: float = 0.95
    """Share of the requests that must meet the objectives. One in twenty may miss: proving 0.99 takes 618 requests at a
    point of which none misses, in four looks, and 0.90 would call a load safe at which every tenth user waits."""
    precision: float = 0.1
    """The bracket is narrow enough when its ends differ by this share of the lower one, or by one request in flight."""
    most_points: int = 16

    def __post_init__(self) -> None:
        for load in (self.low, self.high, *self.points):
            if not 0 < load < float("inf"):
                raise BadInput(f"a load of {load:g} is none; give a positive number of requests")
            if self.over == "concurrency" and load != int(load):
                raise BadInput(f"{load:g} requests in flight is not a whole number")
        if self.low > self.high:
            raise BadInput(f"--from {self.low:g} is above --to {self.high:g}")
        if len(set(self.points)) < len(self.points):
            raise BadInput("a load comes twice in --points")
        if not 0 < self.target < 1:
            raise BadInput(f"a target of {self.target:g} is not a share between 0 and 1; 0.95 is 95 % of the requests")
        if self.requests < 2 or self.most_requests < self.requests:
            raise BadInput(
                f"{self.requests} requests at a point and {self.most_requests} at most: at least 2, and the most not"
                " below"
            )
        if not 0 < self.precision < 1:
            raise BadInput(f"a precision of {self.precision:g} is not a share between 0 and 1")

    def provable(self) -> None:
        """Raises BadInput when not even a point at which every request meets could reach the target."""

        def proves(count: int) -> bool:
            return wilson(count, count, _level(self.requests, count)).low >= self.target

        most = needed = self.most_requests
        if proves(most):
            return
        while not proves(needed):
            needed += max(1, needed // 50)
        raise BadInput(
            f"{most} requests at a point cannot show that {self.target * 100:g} % of all meet the objectives, even if"
            f" every one does; raise --most-prompts to about {needed}, or lower --target"
        )

    @property
    def level(self) -> float:
        """Confidence of one look."""
        return _level(self.requests, self.most_requests)

    def rounds(self, load: float) -> tuple[int, ...]:
        """Requests to send at each look at a load.

        In a closed loop the first one of each place is sent beside them, since it is not counted, and a place gets at
        least `TURNS` more.
        """
        places = int(load) if self.over == "concurrency" else 0
        scale = max(1.0, TURNS * places / self.requests)
        return tuple(round(count * scale) + places for count in looks(self.requests, self.most_requests))


TURNS = 3
"""Requests of each place of a closed loop, after its first: the last ones run beside empty places."""


def looks(requests: int, most: int) -> tuple[int, ...]:
    """New requests of each look: each doubles what there is, the last one reaches `most`."""
    found = [requests]
    while (sent := sum(found)) < most:
        found.append(min(sent, most - sent))
    return tuple(found)


def _level(requests: int, most: int) -> float:
    """Confidence of one of the looks that `most` requests are sent in."""
    return 1 - (1 - LEVEL) / len(looks(requests, most))


class Seen(NamedTuple):
    """What is known of a load. `state` None: without objectives."""

    load: float
    rounds: int
    state: State | None
    output_throughput: float | None


class Next(NamedTuple):
    """Send `requests` more at this load; `look` counts the rounds there, from 0."""

    load: float
    look: int
    requests: int


class Stop(NamedTuple):
    """The search has ended."""

    why: Literal["listed", "lowest_fails", "highest_meets", "flat", "bracketed", "most_points", "unclear"]


def correlation_time(runs: Sequence[Sequence[bool]]) -> float:
    """Requests that are worth one independent one, at least 1; the requests of each run in the order of their schedule.

    1 + 2 x the sum of the autocorrelations, up to the first pair of lags whose sum is not positive (Geyer, Statistical
    Science 7(4), 1992, section 3.3, the initial positive sequence).
    """
    total = sum(map(len, runs))
    mean = sum(map(sum, runs)) / total
    off = [[one - mean for one in run] for run in runs]
    variance = sum(one * one for run in off for one in run) / total
    if not variance:
        return 1.0

    def at(lag: int) -> float:
        return sum(a * b for run in off for a, b in zip(run, run[lag:], strict=False)) / total / variance

    time, lag, longest = 1.0, 1, max(map(len, runs))
    while lag < longest and (pair := at(lag) + at(lag + 1)) > 0:
        time, lag = time + 2 * pair, lag + 2
    return max(time, 1.0)


def share(met: Sequence[Sequence[bool]], near: Sequence[Sequence[bool]], level: float) -> tuple[Interval, float]:
    """Share of the requests that met, with its interval, and how many independent ones they are worth.

    `near`: the same requests, whether each came near a limit. Their correlation tells of a queue that comes and goes
    even where no request has missed yet.
    """
    total = sum(map(len, met))
    part = sum(map(sum, met)) / total
    worth = max(1.0, total / max(correlation_time(met), correlation_time(near)))
    return wilson(part * worth, worth, level), worth


def state(found: Interval, target: float) -> State:
    """Whether a share meets the target: only an interval on one side of it settles that."""
    if found.low >= target:
        return "meets"
    return "fails" if found.high < target else "unclear"


def following(search: Search, seen: Sequence[Seen]) -> Next | Stop:
    """What to do after the points that were measured, in the order in which they were."""
    if seen and _unsettled(search, seen[-1]):
        return _look(search, seen[-1].load, seen[-1].rounds)
    known = {one.load for one in seen}
    if search.points:
        left = [load for load in sorted(search.points) if load not in known]
        return _look(search, left[0]) if left else Stop("listed")
    if not seen:
        return _look(search, search.low)
    points = sorted(seen)
    fails = next((one.load for one in points if one.state == "fails"), None)
    if fails == points[0].load:
        return Stop("lowest_fails")
    if fails is None:
        ended = _ended(search, points)
        if ended is None:
            return _capped(search, known, min(points[-1].load * 2, search.high))
        if points[0].state is None and (between := _beside_the_bend(search, points)) is not None:
            return _capped(search, known, between)
        return ended
    return _bisect(search, points, fails)


def _unsettled(search: Search, last: Seen) -> bool:
    return last.state == "unclear" and last.rounds < len(search.rounds(last.load))


def _look(search: Search, load: float, look: int = 0) -> Next:
    return Next(load, look, search.rounds(load)[look])


def _capped(search: Search, known: set[float], load: float) -> Next | Stop:
    return Stop("most_points") if len(known) >= search.most_points else _look(search, load)


def _ended(search: Search, points: Sequence[Seen]) -> Stop | None:
    """Whether doubling is over although nothing failed."""
    doubled = [points[0]]
    for one in points[1:]:  # beside points that were put between
        if one.load >= 1.9 * doubled[-1].load or one.load == search.high:
            doubled.append(one)
    rising = [(b.output_throughput or 0) >= RISES * (a.output_throughput or 0) for a, b in pairwise(doubled)]
    if len(rising) >= FLAT and not any(rising[-FLAT:]) and points[-1].state != "unclear":
        return Stop("flat")
    return Stop("highest_meets") if points[-1].load >= search.high else None


def _beside_the_bend(search: Search, points: Sequence[Seen]) -> float | None:
    """Without objectives: a load in each gap beside the last one that throughput still rose to."""
    loads = [one.load for one in points]
    best = max((one.output_throughput or 0 for one in points), default=0)
    reached = next((at for at, one in enumerate(points) if (one.output_throughput or 0) * RISES >= best), 0)
    for at in (reached - 1, reached):
        if 0 <= at < len(loads) - 1 and loads[at + 1] >= 1.9 * loads[at]:
            middle = _middle(search, loads[at], loads[at + 1])
            if middle is not None:
                return middle
    return None


def _bisect(search: Search, points: Sequence[Seen], fails: float) -> Next | Stop:
    below = [one for one in points if one.load < fails]
    known = {one.load for one in points}
    meets = max((one.load for one in below if one.state == "meets"), default=None)
    above = None if meets is None else min(one.load for one in points if one.load > meets)
    middle = None if meets is None or above is None else _middle(search, meets, above)
    if middle is not None:
        return _capped(search, known, middle)
    if (beyond := _beyond(search, points)) is not None:
        return _capped(search, known, beyond)
    return Stop("unclear" if meets is None else "bracketed")


def _beyond(search: Search, points: Sequence[Seen]) -> float | None:
    """The next doubling, where throughput still rose at the highest load: the knee lies beyond the objectives."""
    top = points[-1]
    half = next((one for one in reversed(points) if one.load * 1.9 <= top.load), None)
    if half is None or top.load >= search.high or not half.output_throughput or top.output_throughput is None:
        return None
    return min(2 * top.load, search.high) if top.output_throughput >= RISES * half.output_throughput else None


def _middle(search: Search, low: float, high: float) -> float | None:
    """A load between two; None when they are near enough."""
    if search.over == "concurrency":
        return None if high - low <= max(1, search.precision * low) else float(int(low + high) // 2)
    middle = float(f"{(low * high) ** 0.5:.3g}")
    return None if high / low <= 1 + search.precision or not low < middle < high else middle
