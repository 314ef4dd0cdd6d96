"""Eviction under many prefixes: their number rises until the second visit to each no longer finds it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvlab.core.errors import ServerRefused
from kvlab.core.performance import share
from kvlab.core.prefix import ChurnPoint, PrefixChurn, Told
from kvlab.core.statistics import geometric_interval
from kvlab.sharing.line import Line, Sent
from kvlab.sharing.pool import Pool, Visit
from kvlab.sharing.quick import LEAST_HIT, LOOK
from kvlab.sharing.writer import Passage

TAIL = 8
"""Tokens of what follows the prefix and is new in every request."""
LONGEST = 8192
SHORTEST = 32
ACROSS = 12
"""Prefixes that the stated pool is divided into: the resolution of its measured end."""
UNSTATED = 1024
"""Tokens of a prefix where no pool is stated."""
SAME = 0.02
"""Hit shares that differ by less are the same."""
NEAR = 0.05
"""Measured and simulated hit shares that differ by less agree."""
FINE = 0.06
"""The search ends when the end of the pool is known to this share of it, or to one prefix."""
CHUNK = 8
"""Prompts sent between two looks at the bounds."""
BEHIND = "something keeps what the pool evicts (a tier in host memory), or the pool is larger than stated"
FULLER = (
    "the pool is smaller than stated, other traffic fills it, or what is evicted is not what was used least recently"
)


class Bounds(NamedTuple):
    """What the experiment may take: requests, and seconds from its start."""

    requests: int
    seconds: float


class Level(NamedTuple):
    """So many prefixes, and the answers of the second visit to them."""

    prefixes: int
    sent: tuple[Sent, ...]
    end: int
    """Visits of the walk up to and including this level's."""


class Walk:
    """Visits prefixes in turn, and remembers every visit for the simulation. Stops when a bound is reached."""

    def __init__(self, line: Line, prefix_tokens: int, bounds: Bounds, tell: Callable[[int, int], None]) -> None:
        self.prefix_tokens = prefix_tokens
        self.visits: list[Visit] = []
        self.exact = line.writer.exact
        self.failed: str | None = None
        self.spent = ""
        """Which bound was reached, in words; empty as long as none is."""
        self._line, self._bounds, self._tell = line, bounds, tell
        self._start = time.monotonic()
        self._heads: list[Passage] = []
        self._held = 0
        """The prefixes below this number were visited last, in their order."""

    def level(self, count: int) -> Level | None:
        """Visits `count` prefixes until each was used in turn, then again. None when a bound stopped it before."""
        while len(self._heads) < count:
            self._heads.append(self._line.writer.passage(self.prefix_tokens))
        # After a visit to the first n, only those beyond n are missing for the order of n + m.
        fill = range(self._held if self._held <= count else 0, count)
        filled, self._held = self._visit(fill), 0
        measured = self._visit(range(count)) if filled is not None else None
        if measured is None:
            return None
        self._held = count
        return Level(count, tuple(measured), len(self.visits))

    def _visit(self, numbers: Sequence[int]) -> list[Sent] | None:
        found: list[Sent] = []
        for at in range(0, len(numbers), CHUNK):
            some = numbers[at : at + CHUNK]
            if self._stopped(len(some)):
                return None
            tails = [self._line.writer.passage(TAIL) for _ in some]
            prompts = [
                self._line.prompt(f"{number}-{len(self.visits)}", self._heads[number], tail)
                for number, tail in zip(some, tails, strict=True)
            ]
            try:
                sent = self._line.send(prompts)
            except ServerRefused as error:
                self.failed = str(error)
                return None
            self.visits += [Visit(number, one.row.prompt_tokens) for number, one in zip(some, sent, strict=True)]
            found += sent
            self._tell(len(self.visits), self._bounds.requests)
            bad = next((one.row.error for one in sent if one.row.error), None)
            if bad is not None:
                self.failed = bad
                return None
        return found

    def _stopped(self, more: int) -> bool:
        if len(self.visits) + more > self._bounds.requests:
            self.spent = f"{self._bounds.requests:,} requests"
        elif time.monotonic() - self._start > self._bounds.seconds:
            self.spent = f"{self._bounds.seconds:g} s"
        return bool(self.spent)


def measure_churn(
    line: Line, tokens: int | None, pool: Pool, bounds: Bounds, tell: Callable[[int, int], None]
) -> PrefixChurn:
    """More and more prefixes of `tokens` tokens (None: a twelfth of the stated pool), and the pool's end between two.

    Prefixes are visited in turn, the order that is hardest on a cache that evicts what was used least recently: one
    prefix more than fit, and each is evicted before it comes again.
    """
    walk = Walk(line, tokens or prefix_size(pool, line.known.room), bounds, tell)
    levels: dict[int, Level] = {}
    # With a stated pool the walk starts at half of it, else at two prefixes.
    fitting = None if pool.tokens is None else pool.tokens // (walk.prefix_tokens + TAIL)
    count = 2 if fitting is None else max(2, fitting // 2)
    while True:
        level = walk.level(count)
        if level is None:
            break
        levels[count] = level
        following = _next(levels)
        if following is None:
            break
        count = following
    return judge_churn(walk, levels, pool)


def prefix_size(pool: Pool, room: int | None) -> int:
    """Tokens of a prefix: a twelfth of the pool, whole blocks of it, and no more than a request holds."""
    most = min(LONGEST, room if room is not None else LONGEST)
    if pool.tokens is None:
        return min(UNSTATED, most)
    block = pool.block_size or 1
    wanted = max(SHORTEST, min(most, pool.tokens // ACROSS))
    return max(block, wanted // block * block)


def _next(levels: dict[int, Level]) -> int | None:
    """The next number of prefixes: twice the last, then halving between those that hit and those that do not."""
    held, lost = _edges(levels)
    if held is None:
        return None
    if lost is None:
        return 2 * held
    return (held + lost) // 2 if lost - held > max(1, FINE * lost) else None


def _edges(levels: dict[int, Level]) -> tuple[int | None, int | None]:
    """The largest number whose second visit hit as the smallest one's did, and the smallest beyond it that did not."""
    shares = {count: hit_share(level.sent) for count, level in sorted(levels.items())}
    first = next(iter(shares.values()), None)
    if first is None or first < LEAST_HIT:
        return None, None
    full = [count for count, found in shares.items() if found is not None and found >= first - SAME]
    lost = [count for count, found in shares.items() if found is not None and found < first - SAME]
    least = min(lost, default=None)
    return max((count for count in full if least is None or count < least), default=None), least


def hit_share(sent: Sequence[Sent]) -> float | None:
    """Cached tokens over what the visits share with earlier ones; None when a request's are not stated."""
    cached = [one.cached for one in sent]
    shared = [one.row.prompt_tokens - TAIL if one.row.prompt_tokens else 0 for one in sent]
    if not sent or not sum(shared) or any(one is None for one in cached):
        return None
    return min(1.0, sum(one or 0 for one in cached) / sum(shared))


def judge_churn(walk: Walk, levels: dict[int, Level], pool: Pool) -> PrefixChurn:
    """What was measured, level by level, beside what the stated pool would give."""
    simulated = pool.simulated(walk.visits, walk.prefix_tokens) if levels and walk.exact else None
    points = tuple(_point(level, walk.prefix_tokens, simulated) for _, level in sorted(levels.items()))
    sizes = {point.prefixes: point.tokens for point in points}
    held, lost = (None if count is None else sizes[count] for count in _edges(levels))
    verdict, because = _verdict(walk, points, (held, lost), pool)
    return PrefixChurn(
        prefix_tokens=walk.prefix_tokens,
        points=points,
        held_tokens=held,
        lost_tokens=lost,
        pool_tokens=pool.tokens,
        pool_from=pool.told_by,
        simulated=None if simulated is None else pool.words,
        verdict=verdict,
        because=because,
    )


def _point(level: Level, prefix_tokens: int, simulated: Sequence[int] | None) -> ChurnPoint:
    shared = level.prefixes * prefix_tokens
    return ChurnPoint(
        prefixes=level.prefixes,
        tokens=sum(one.row.prompt_tokens or 0 for one in level.sent),
        hit_share=hit_share(level.sent),
        lru_hit_share=None if simulated is None else sum(simulated[level.end - level.prefixes : level.end]) / shared,
        ttft=geometric_interval([one.ttft for one in level.sent if one.ttft]),
    )


def _verdict(
    walk: Walk, points: Sequence[ChurnPoint], edge: tuple[int | None, int | None], pool: Pool
) -> tuple[Told, str]:
    held, lost = edge
    stopped = walk.failed or (f"the bound of {walk.spent} was reached" if walk.spent else "")
    if not points:
        return "not seen", f"no level was finished: {stopped}"
    if points[0].hit_share is None:
        return "not seen", "neither usage nor the engine's metrics state cached tokens"
    if held is None:
        return "not seen", f"the second visit to {points[0].prefixes} prefixes found nothing; {LOOK}"
    stated = "" if pool.tokens is None else f"; {pool.told_by} states {pool.tokens:,}"
    if lost is None:
        text = f"every second visit hit, up to {held:,} tokens{stated}; {stopped}"
        if pool.tokens is not None and held > pool.tokens + walk.prefix_tokens:
            return "differs", f"{text}; more is held than that pool: {BEHIND}"
        return "not seen", f"{text} before the pool's end: raise the bounds, or ask for longer prefixes"
    text = f"hits fall between {held:,} and {lost:,} tokens{stated}"
    if pool.tokens is None:
        return "not seen", f"{text}; neither a plan nor the server states the pool"
    far = [
        (abs(point.hit_share - point.lru_hit_share), point)
        for point in points
        if point.hit_share is not None and point.lru_hit_share is not None
    ]
    if far:
        most, worst = max(far, key=lambda pair: pair[0])
        if most <= NEAR:
            return "agrees", f"{text}; hit shares within {share(most)} of {pool.words}"
        text += (
            f"; at {worst.prefixes} prefixes {share(worst.hit_share or 0)} hit, {share(worst.lru_hit_share or 0)} by"
        )
        text += f" {pool.words}"
    elif held - walk.prefix_tokens <= pool.tokens <= lost + walk.prefix_tokens:
        return "agrees", text
    return "differs", f"{text}: {BEHIND if held > pool.tokens else FULLER}"
