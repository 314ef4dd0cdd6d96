"""`breakers` of a log: found, weighed by what each costs, and written as a value."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

from kvlab.breakers import causes
from kvlab.breakers._log import check_target, lines, requests
from kvlab.breakers._pieces import pieces
from kvlab.breakers._replay import Hits, Replay, fixed
from kvlab.breakers._search import Found, Search
from kvlab.core.breaker import Breaker, Breakers
from kvlab.core.errors import BadInput
from kvlab.core.trace import Logged, Reading
from kvlab.traces import encoder, packed
from kvlab.workload.reuse import part_of

_MOST = 32
"""Causes that are weighed, those with the most requests."""
_PAIRS = 50
_OF_A_QUESTION = 4
"""Blocks a request that a value in the last message must cost."""


def breakers(paths: Sequence[Path], form: str | None, reading: Reading, fix: str | Path | None) -> Breakers | None:
    """What breaks the prefixes of logs with text; None where none holds text, or nothing counts its tokens.

    `fix`: the file to which the log is written with all that was found fixed. Raises BadInput where that cannot be.
    """
    if fix is not None:
        check_target(fix, paths)
    logged, whole = requests(paths, form, everything=fix is not None)
    if not any(pieces(one) for one in logged):
        if fix is not None:
            raise BadInput("--fix rewrites the text of a log, and this one holds token ids alone")
        return None
    counting = encoder(reading)
    if counting is None:
        return None
    replay = Replay(logged, counting, reading.block_size)
    found = Search([pieces(one) for one in logged]).run()
    largest = sorted(found, key=lambda one: -len(one.members))[:_MOST]
    found = _worthwhile(replay, [one for one in found if one in largest], reading.block_size)
    before, after = replay.hits(replay.with_fixed([])), replay.hits(replay.with_fixed(found))
    weighed = [_weighed(replay, logged, found, one, after) for one in found]
    if fix is not None:
        _write(Path(fix), [fixed(one, at, found) for at, one in enumerate(logged)])
    return Breakers(
        requests=len(logged),
        whole_log=whole,
        tokens=before.tokens,
        found=tuple(sorted(weighed, key=lambda one: -one.tokens)),
        hit_tokens=before.hit,
        hit_rate=part_of(before.hit, before.tokens),
        fixed_tokens=after.tokens,
        fixed_hit_tokens=after.hit,
        fixed_hit_rate=part_of(after.hit, after.tokens),
        written=None if fix is None else str(fix),
    )


def _worthwhile(replay: Replay, found: list[Found], size: int) -> list[Found]:
    """Those without which, all others being fixed, at least a block of tokens would be lost."""
    kept = found
    while kept:
        best = replay.hits(replay.with_fixed(kept)).hit
        costs = [
            best - replay.hits(replay.with_fixed([other for other in kept if other is not one])).hit for one in kept
        ]
        worth = [one for one, cost in zip(kept, costs, strict=True) if cost >= _least(one) * size]
        if len(worth) == len(kept):
            break
        kept = worth
    return kept


def _least(one: Found) -> int:
    """Blocks that a cause must cost to be named: a name or a day in a question is often what is asked for."""
    return _OF_A_QUESTION * len(one.differ) if one.question else 1


def _weighed(replay: Replay, logged: Sequence[Logged], found: list[Found], one: Found, after: Hits) -> Breaker:
    left = replay.with_fixed([other for other in found if other is not one])
    first = one.members[0]
    token = min((_common(left[first].ids, left[at].ids) for at in one.differ[:_PAIRS] if at != first), default=0)
    size = replay.block_size
    cause = causes()[one.code]
    return Breaker(
        code=one.code,
        title=cause.title,
        where=one.label,
        seen=f"{logged[first].where} and {logged[one.differ[0]].where}",
        requests=len(one.differ),
        group=len(one.members),
        first_token=token,
        first_block=token // size,
        tokens=after.hit - replay.hits(left).hit,
        fix=cause.fix,
    )


def _common(one: array[int], other: array[int]) -> int:
    least = min(len(one), len(other))
    return next((at for at in range(least) if one[at] != other[at]), least)


def _write(path: Path, made: list[Logged]) -> None:
    from kvlab.store import write_atomic

    text = "".join(f"{line}\n" for line in lines(made)).encode("utf-8", "surrogatepass")
    write_atomic(path, packed(path, text), private=True)  # it holds what people wrote
