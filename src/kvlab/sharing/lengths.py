"""Time to first token, cold against warm, over the length of the prefix: what caching saves, and from where it pays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.interval import Interval
from kvlab.core.performance import share
from kvlab.core.prefix import LengthPoint, PrefixLengths
from kvlab.core.statistics import geometric_interval, student_interval
from kvlab.sharing.line import Line, Sent
from kvlab.sharing.quick import LEAST_HIT, LOOK, SLIGHT

if TYPE_CHECKING:
    from kvlab.load.spec import Prompt

LADDER = tuple(256 << step for step in range(8))
"""Default lengths: doubling, 256 to 32,768 tokens, as far as a request holds them."""
UNKNOWN_ROOM = 4096
"""Longest default length where the server does not state its limit."""
TAIL = 16
"""Tokens of what follows the prefix and is new in every request."""
SHORTEST = 16


class Round(NamedTuple):
    """One round at one length: time to first token of the cold request, and of each warm one with its cached tokens."""

    cold: float
    warm: tuple[float, ...]
    cached: tuple[int | None, ...]
    prompt_tokens: int | None


def ladder(asked: Sequence[int], room: int | None) -> tuple[int, ...]:
    """The lengths to measure, sorted: those asked for, or the default ones that fit `room` and `room` itself.

    Raises BadInput for a length that is too short to be seen, or longer than a request may be.
    """
    if asked:
        for length in asked:
            if length < SHORTEST or (room is not None and length > room):
                limits = f"{SHORTEST} tokens or more" if room is None else f"{SHORTEST} to {room:,} tokens"
                raise BadInput(f"a prefix of {length:,} tokens cannot be measured on this server: ask for {limits}")
        return tuple(sorted(set(asked)))
    if room is None:
        return tuple(length for length in LADDER if length <= UNKNOWN_ROOM)
    fitting = [length for length in LADDER if length <= room]
    # The longest prefix that fits, unless the ladder nearly reaches it.
    if room < LADDER[-1] and (not fitting or room > 1.25 * fitting[-1]):
        fitting.append(room)
    return tuple(fitting)


def measure_lengths(
    line: Line, lengths: Sequence[int], *, rounds: int, warm: int, tell: Callable[[int, int], None]
) -> PrefixLengths:
    """`rounds` rounds over all lengths, up and down by turns, so that a drift of the machine is no slope.

    In a round each length gets a fresh prefix: one cold request, then `warm` warm ones. A length whose requests all
    fail is left out, and the reason is said. Raises ServerRefused when every length fails.
    """
    found: dict[int, list[Round]] = {length: [] for length in lengths}
    refused: dict[int, str] = {}
    total = rounds * len(lengths) * (warm + 1)
    for number in range(rounds):
        order = lengths if number % 2 == 0 else tuple(reversed(lengths))
        for at, length in enumerate(order):
            if length not in refused:
                try:
                    sent = line.send(_prompts(line, f"{number}-{length}", length, warm + 1))
                except ServerRefused as error:
                    refused[length] = str(error)
                    continue
                found[length] += [one] if (one := _round(sent)) is not None else []
            tell((number * len(lengths) + at + 1) * (warm + 1), total)
    if len(refused) == len(lengths):
        raise ServerRefused(next(iter(refused.values())))
    return judge_lengths(found, rounds=rounds, left_out=refused)


def _prompts(line: Line, name: str, length: int, count: int) -> list[Prompt]:
    head = line.writer.passage(length)
    return [line.prompt(f"{name}-{at}", head, line.writer.passage(TAIL)) for at in range(count)]


def _round(sent: Sequence[Sent]) -> Round | None:
    """None when the cold request, or every warm one, was not answered."""
    first, others = sent[0], [one for one in sent[1:] if one.ttft]
    if not first.ttft or not others:
        return None
    warm = tuple(one.ttft for one in others if one.ttft)
    return Round(first.ttft, warm, tuple(one.cached for one in others), first.row.prompt_tokens)


def judge_lengths(
    found: Mapping[int, Sequence[Round]], *, rounds: int, left_out: Mapping[int, str] | None = None
) -> PrefixLengths:
    """The rounds by length as intervals, a slope and a verdict. Lengths with fewer than two rounds are left out."""
    points = tuple(_point(length, some) for length, some in sorted(found.items()) if len(some) > 1)
    paying = [point.prefix_tokens for point in points]
    for point in points:
        if not point.pays:
            paying = [length for length in paying if length > point.prefix_tokens]
    slope = _slope({length: some for length, some in found.items() if len(some) == rounds})
    because = _because(points, paying, slope)
    missing = {**dict.fromkeys((n for n in found if len(found[n]) < 2), "fewer than two rounds"), **(left_out or {})}
    if missing:
        length, why = next(iter(sorted(missing.items())))
        because += f"; {len(missing)} of {len(found)} lengths left out, the first {length:,} tokens ({why})"
    nothing = bool(points) and all(point.speedup.high < SLIGHT or _unhit(point) for point in points)
    return PrefixLengths(
        rounds=rounds,
        points=points,
        saved_seconds_per_1000_tokens=slope,
        pays_from_tokens=min(paying, default=None),
        verdict="caching pays" if paying else "caching gives nothing" if nothing else "inconclusive",
        because=because + (f"; {LOOK}" if nothing else ""),
    )


def _point(length: int, rounds: Sequence[Round]) -> LengthPoint:
    from statistics import geometric_mean

    cold = tuple(one.cold for one in rounds)
    warm = tuple(geometric_mean(one.warm) for one in rounds)
    cached = [tokens for one in rounds for tokens in one.cached if tokens is not None]
    intervals = [
        geometric_interval(values)
        for values in (cold, warm, [one / other for one, other in zip(cold, warm, strict=True)])
    ]
    saved = student_interval([one - other for one, other in zip(cold, warm, strict=True)])
    cold_ttft, warm_ttft, speedup = (_needed(interval) for interval in intervals)
    point = LengthPoint(
        prefix_tokens=length,
        prompt_tokens=rounds[0].prompt_tokens,
        cold=cold,
        warm=warm,
        cold_ttft=cold_ttft,
        warm_ttft=warm_ttft,
        speedup=speedup,
        saved_seconds=_needed(saved),
        cached_share=min(1.0, sum(cached) / (len(cached) * length)) if cached else None,
        pays=False,
    )
    return _with_pays(point)


def _needed(interval: Interval | None) -> Interval:
    """The interval, which two rounds of positive times have."""
    assert interval is not None
    return interval


def _with_pays(point: LengthPoint) -> LengthPoint:
    from msgspec.structs import replace

    return replace(point, pays=point.speedup.low > 1 and not _unhit(point))


def _unhit(point: LengthPoint) -> bool:
    """Whether the engine says that the prefix was not found: then something else made the warm requests faster."""
    return point.cached_share is not None and point.cached_share < LEAST_HIT


def _slope(rounds: Mapping[int, Sequence[Round]]) -> Interval | None:
    """Saved seconds per 1,000 prefix tokens: a least-squares line through each round, Student's interval over rounds.

    A round is one unit: noise that grows with the length, and drift between rounds, widen the interval as they should.
    """
    lengths = sorted(rounds)
    if len(lengths) < 2:
        return None
    import numpy as np
    from scipy.stats import gmean

    saved = np.array([[one.cold - float(gmean(one.warm)) for one in rounds[length]] for length in lengths])
    slopes = np.polyfit(np.array(lengths, dtype=float) / 1000, saved, 1)[0]
    return student_interval([float(slope) for slope in slopes])


def _because(points: Sequence[LengthPoint], paying: Sequence[int], slope: Interval | None) -> str:
    if not points:
        return "no length was answered cold and warm in two rounds"
    last = points[-1]
    text = (
        f"at {last.prefix_tokens:,} tokens cold / warm time to first token {last.speedup.value:.2f}"
        f" (95 % interval {last.speedup.low:.2f} to {last.speedup.high:.2f})"
    )
    if last.cached_share is None:
        text += ", the engine does not say how many tokens came from its cache"
    if paying:
        below = [point for point in points if point.prefix_tokens < min(paying)]
        text += f"; it pays from {min(paying):,} tokens on, " + (
            "the shortest measured" if not below else _below(below[-1])
        )
    if slope is not None:
        text += (
            f"; {slope.value:.3g} s saved per 1,000 tokens of prefix"
            f" (95 % interval {slope.low:.3g} to {slope.high:.3g})"
        )
    return text


def _below(point: LengthPoint) -> str:
    hit = "" if point.cached_share is None else f", {share(point.cached_share)} of it cached"
    return f"not yet at {point.prefix_tokens:,} ({point.speedup.value:.2f} times{hit})"
