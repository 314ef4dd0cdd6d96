"""What is said of a workload, the same on a terminal and on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvlab.core.errors import shortened
from kvlab.core.model import Kind
from kvlab.core.trace import Counted
from kvlab.core.traffic import ContextLimit, CurvePoint, Lengths, PolicyPoint, Reuse, Traffic, UnderLoad
from kvlab.core.units import seconds, size
from kvlab.reporting import at_once, words
from kvlab.workload.moves import capacity, knee

if TYPE_CHECKING:
    from kvlab.reporting.sections import Tile

SCHEMES: Final = (
    "waste: what is reserved and not used, over all decode steps; max: for each what holds the longest request, the"
    " next power of two or --context; pow2: the prompt and the next power of two of the answer; oracle: the length it"
    " will have; pages: whole pages as it grows"
)
COUNTED: Final[dict[Counted, str]] = {
    "log": "read",
    "tokenizer": "counted by the tokenizer",
    "estimate": "estimated, 4 bytes of text a token",
}
_KINDS: Final[dict[Counted, Kind]] = {"log": "read", "tokenizer": "computed", "estimate": "estimated"}
_POLICIES: Final = {"lru": "LRU", "fifo": "FIFO", "lfu": "LFU", "belady": "Belady"}
NUMBERS: Final = ("mean", "p50", "p90", "p95", "p99", "p99.9", "max")
_NAMES = 3
"""Files that are named; the others are counted."""
_LONGEST = 120
"""Characters of a name that came with the log."""
_ROUNDS_TO_NONE = 0.0005
"""A share below this is printed as "0.0 %"."""
_A_TENTH = 0.1
"""A waste below this is told with three digits: that of pages is far less than one per cent."""


def limit_head(limit: ContextLimit) -> str:
    """What a limit would cut: which one is right is not in the trace."""
    if not limit.truncated:
        return f"A limit of {limit.recommended:,} tokens holds all requests"
    cut = f"{words.share(limit.truncated_share)} of the requests"
    if limit.truncated_share < _ROUNDS_TO_NONE:
        cut = words.counted(limit.truncated, "request")
    return f"A limit of {limit.recommended:,} tokens would cut {cut}"


def limit_why(limit: ContextLimit) -> str:
    """Where that limit comes from, and the one that cuts nothing."""
    whole = "" if limit.holds_all is None or not limit.truncated else f"; {limit.holds_all:,} tokens hold all"
    return f"{limit.because}{whole}"


def saved(amount: float) -> str:
    """Seconds that tiers save a request; those that cost some are told as such."""
    return seconds(amount) if amount >= 0 else f"-{seconds(-amount)}: slower than computing again"


def names(value: Traffic) -> str:
    """The files, the first few by name."""
    more = len(value.files) - _NAMES
    first = ", ".join(short(name) for name in value.files[:_NAMES])
    return f"{first} and {words.counted(more, 'more file')}" if more > 0 else first


def about(value: Traffic) -> str:
    """How much traffic it is, and in how long a time."""
    text = f"{value.format}, {words.counted(value.requests, 'request')}"
    if value.span_seconds and value.requests_per_second:
        text += f" in {value.span_seconds:,.0f} s, {value.requests_per_second:.2f} a second"
    return text


def no_reuse(value: Traffic) -> str:
    """Why nothing is said of reuse."""
    told = any(doubt.key == "reuse" for doubt in value.doubts)
    return f"not known: lengths alone do not tell what prompts share{'; the doubts say what would' if told else ''}"


def codes(value: Traffic) -> list[str]:
    """The codes of moves and of what breaks prefixes, each once; `kvlab explain` has a page of each."""
    broken = () if value.breakers is None else value.breakers.found
    return list(dict.fromkeys([*(move.code for move in value.moves), *(one.code for one in broken)]))


def short(text: str) -> str:
    """A name that came with the log, cut where nobody reads on."""
    return words.plain(shortened(text, _LONGEST))


def of_lengths(value: Traffic) -> Kind:
    """Where the lengths come from."""
    return _KINDS[value.counted]


def of_arithmetic(value: Traffic) -> Kind:
    """What is computed from lengths or blocks: as sure as these are."""
    return "estimated" if value.counted == "estimate" else "computed"


def of_reuse(value: Traffic) -> Kind:
    """The same of reuse, which a sample makes an estimate."""
    sampled = value.reuse is not None and value.reuse.sampled is not None
    return "estimated" if sampled else of_arithmetic(value)


def policy(name: str) -> str:
    """A policy as the field writes it."""
    return _POLICIES.get(name) or words.plain(name)


def policies(points: tuple[PolicyPoint, ...]) -> list[tuple[int, list[str]]]:
    """Each capacity with the hits of every policy, in the order of `policy_names`."""
    found = {(point.capacity_blocks, point.policy): point for point in points}
    return [
        (at, [_hits(found.get((at, name))) for name in policy_names(points)])
        for at in dict.fromkeys(point.capacity_blocks for point in points)
    ]


def policy_names(points: tuple[PolicyPoint, ...]) -> list[str]:
    """Policies that were asked for."""
    return list(dict.fromkeys(point.policy for point in points))


def beside(points: tuple[PolicyPoint, ...], cells: list[str]) -> list[tuple[str, str]]:
    """The cells of a row of `policies`, each after its policy."""
    return list(zip(policy_names(points), cells, strict=True))


def changing(reuse: Reuse) -> list[CurvePoint]:
    """The curve without points that lie between two with the same shares, unless their size was asked for."""
    curve = reuse.curve
    shown = [None, *((words.share(point.token_hit_rate), words.share(point.hit_rate)) for point in curve), None]
    return [
        point
        for at, point in enumerate(curve)
        if point.capacity_blocks in reuse.asked_blocks or not shown[at] == shown[at + 1] == shown[at + 2]
    ]


def _hits(point: PolicyPoint | None) -> str:
    return "" if point is None else f"{point.hit_blocks:,} ({words.share(point.hit_rate)})"


def columns(value: Traffic) -> list[tuple[str, Lengths]]:
    """The columns of lengths that the trace has, by name."""
    found = (("prompt", value.input_tokens), ("answer", value.output_tokens), ("total", value.total_tokens))
    return [(name, lengths) for name, lengths in found if lengths is not None]


def numbers(found: Lengths) -> tuple[float, ...]:
    """Mean, percentiles and maximum."""
    return (found.mean, found.p50, found.p90, found.p95, found.p99, found.p999, found.max)


def named(found: Lengths) -> list[tuple[str, float]]:
    """The same with their names."""
    return list(zip(NUMBERS, numbers(found), strict=True))


def waste(share: float) -> str:
    """A share of reserved memory: that of pages is far below a tenth of a per cent."""
    return words.share(share) if share >= _A_TENTH else f"{100 * share:.3g} %"


def answers(value: Traffic) -> list[tuple[str, str]]:
    """What is asked first of a workload, and the answer: the limit, the pool, the tier, the load."""
    found = [("context limit", limit_why(value.context)), ("cache", _pool(value))]
    if (saves := at_once.freed(value.context)) is not None:
        found.insert(1, ("memory", saves))
    if value.concurrency is not None:
        found.append(("requests at once", at_once.pool_line(value.concurrency) or at_once.line(value.concurrency)))
    if value.reuse is not None:
        found.append(("offload tier" if value.reuse.tiers is None else "tiers", _tier(value)))
    if value.load is not None:
        found.append(("under load", _calm(value.load)))
    return found


def _pool(value: Traffic) -> str:
    if value.reuse is None:
        return no_reuse(value)
    ideal = value.reuse.ideal
    if not ideal.hit_tokens:
        return "no size helps: no prompt begins as an earlier one did"
    enough = knee(value.reuse)
    return (
        f"one of {capacity(enough)} finds {words.share(enough.token_hit_rate)} of the prompt tokens, of"
        f" {words.share(ideal.token_weighted)} that an endless one would"
    )


def _tier(value: Traffic) -> str:
    assert value.reuse is not None
    tiers = value.reuse.tiers
    if tiers is None:
        advised = next((move.do for move in value.moves if move.code == "offload_tier"), None)
        return advised or "none is advised for this traffic"
    each = ", ".join(f"{short(one.name)} {words.share(one.hit_rate)}" for one in tiers.tiers)
    text = f"{each} of the blocks, together {words.share(tiers.hit_rate)}"
    return text if tiers.ttft_saved_seconds is None else f"{text}; TTFT saved: {saved(tiers.ttft_saved_seconds)}"


def _calm(load: UnderLoad) -> str:
    calm = [one for one in load.pools if not one.preemptions and not one.too_large]
    if not calm:
        return f"every simulated pool has {load.preemption_word}, or is too small for some requests"
    least = min(calm, key=lambda one: one.pool_blocks)
    memory = "" if least.pool_bytes is None else f" ({size(least.pool_bytes)})"
    return (
        f"of the simulated pools, {least.pool_blocks:,} blocks{memory} is the smallest without {load.preemption_word}"
        f" that holds every request; TTFT p99 there: {seconds(least.ttft.p99 / 1000)}"
    )


def tiles(value: Traffic) -> list[Tile]:
    """The handful of numbers that the answers stand on."""
    from kvlab.reporting.sections import Tile  # a terminal has none, and need not load it

    total = value.total_tokens or value.input_tokens
    what = "prompt and answer, p99" if value.total_tokens is not None else "prompt, p99"
    found = [
        Tile(
            name=what,
            value=f"{total.p99:,.0f} tokens",
            behind=f"mean {total.mean:,.0f}, longest {total.max:,}",
            kind=of_lengths(value),
        )
    ]
    if value.reuse is not None:
        ideal = value.reuse.ideal
        blocks = f"{ideal.hit_blocks:,} of {value.reuse.blocks:,} blocks of {value.reuse.block_size}"
        share = words.share(ideal.token_weighted)
        found.append(Tile(name="tokens that an endless cache finds", value=share, behind=blocks, kind=of_reuse(value)))
        if ideal.hit_tokens:
            enough = knee(value.reuse)
            behind = f"{capacity(enough)}: {words.share(enough.token_hit_rate)} of the tokens"
            blocks = words.counted(enough.capacity_blocks, "block")
            found.append(
                Tile(name="cache that finds nine tenths of it", value=blocks, behind=behind, kind=of_reuse(value))
            )
    if value.breakers is not None and value.breakers.found:
        held = f"now {words.share(value.breakers.hit_rate)}"
        share = words.share(value.breakers.fixed_hit_rate)
        found.append(
            Tile(name="the same, once prefixes are fixed", value=share, behind=held, kind=of_arithmetic(value))
        )
    return found


def contents(value: Traffic) -> list[tuple[str, str]]:
    """The page's sections below the verdict, those that the trace has: anchor and name."""
    reuse = value.reuse
    present = (
        ("lengths", "lengths", True),
        ("reuse", "prefix reuse", reuse is not None),
        ("tiers", "tiers", bool(reuse and reuse.tiers)),
        ("replicas", "replicas", bool(reuse and reuse.replicas)),
        ("breakers", "what breaks the prefix", value.breakers is not None),
        ("at-once", "requests at once", value.concurrency is not None),
        ("load", "under load", value.load is not None),
        ("waste", "memory reserved and not used", bool(value.paging)),
        ("doubts", "doubts", bool(value.doubts)),
    )
    return [(anchor, name) for anchor, name, there in present if there]
