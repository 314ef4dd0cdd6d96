"""What the page shows that the record does not hold as such: the glance, the diverging answers, errors, doubts."""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from kvlab.core.model import Kind
from kvlab.core.plan import ContextLine, Flag, Plan
from kvlab.core.quality import Divergence
from kvlab.core.record import Ab, Forecast, Load, Record
from kvlab.core.units import size
from kvlab.reporting import planned, words

_SHARED_SHOWN = 400
_REST_SHOWN = 1200
_PROMPT_SHOWN = 600
_GLANCE = ("output_throughput", "mean_ttft_ms", "mean_tpot_ms")


class Tile(msgspec.Struct, frozen=True, kw_only=True):
    """One number of the glance: its name, its value, what stands behind it, and where it comes from."""

    name: str
    value: str
    behind: str
    kind: Kind


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer from the point of divergence; `cut` characters at its end are not shown."""

    rest: str
    cut: int


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two answers to one prompt: what they share, and how each goes on. `skipped` shared characters are not shown."""

    prompt_id: str
    kind: str
    prompt: str
    prompt_cut: int
    share: str
    skipped: int
    shared: str
    a: Answer
    b: Answer


class ContextCell(msgspec.Struct, frozen=True):
    """The cache of one request, and how many of them the pool holds ("" when there is no pool)."""

    size: str
    requests: str


class ContextTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of contexts: the arms it holds for, and a column for all cache dtypes that cost the same."""

    arms: str
    title: str
    dtypes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[ContextCell | None, ...]], ...]
    beyond: bool
    """Whether a row is marked as longer than the model's own context."""


def glance(ab: Ab) -> list[Tile]:
    """The handful of numbers that the verdict stands on."""
    tiles = []
    tokens = {
        name: (arm.plan, arm.plan.capacity) for name, arm in sorted(ab.arms.items()) if arm.plan.capacity is not None
    }
    if tokens:
        told = {name: planned.tokens(plan, capacity) for name, (plan, capacity) in tokens.items()}
        sizes = " / ".join(value.text for value in told.values())
        ranges = "; ".join(f"{name.upper()} {value.between}".strip() for name, value in told.items())
        kind: Kind = "estimated" if any(value.between for value in told.values()) else "computed"
        behind = ranges if kind == "estimated" else " / ".join(name.upper() for name in tokens)
        tiles.append(Tile(name="tokens in the cache", value=sizes, behind=behind, kind=kind))
    checks = {name: arm.check for name, arm in sorted(ab.arms.items()) if arm.check}
    if checks:
        value = " / ".join(f"{check.exact} of {len(check.rows)}" for check in checks.values())
        behind = "; ".join(f"{name.upper()} {words.tally(check).partition(', ')[2]}" for name, check in checks.items())
        tiles.append(Tile(name="log lines that are exactly as planned", value=value, behind=behind, kind="read"))
    for row in ab.performance:
        if row.metric in _GLANCE:
            name = words.metric(row.metric, row.unit)
            behind = f"{words.bounds(row.low, row.high)}; {row.verdict}"
            tiles.append(Tile(name=name, value=words.change(row.change), behind=behind, kind="measured"))
    if ab.quality and ab.quality.noise_floor and ab.quality.candidate:
        floor = f"A against itself {words.share(ab.quality.noise_floor.identical.value)}"
        value = words.share(ab.quality.candidate.identical.value)
        tiles.append(Tile(name="identical answers", value=value, behind=floor, kind="measured"))
    return tiles


def contents(record: Record) -> list[tuple[str, str]]:
    """The page's sections below the verdict, those that the record has: anchor and name."""
    ab = record.ab
    present = (
        ("performance", "B against A", bool(ab and ab.performance)),
        ("plan", "plan", bool(ab and ab.arms)),
        ("check", "plan against log", bool(ab and ab.arms)),
        ("load", "latency and throughput", bool(record.runs)),
        ("quality", "quality", bool(ab and ab.quality)),
        ("prefix", "prefix caching", bool(ab and ab.prefix)),
        ("protocol", "load, protocol, machine", True),
        ("launch", "launch commands", bool(ab and ab.arms)),
        ("doubts", "doubts", bool(ab and doubts(ab))),
    )
    return [(anchor, name) for anchor, name, there in present if there]


def pair(divergence: Divergence) -> Pair:
    """The two answers split where they part, at a word; long texts are cut and the cut is counted."""
    shared = common_words(divergence.a, divergence.b)
    skipped = max(0, len(shared) - _SHARED_SHOWN)
    return Pair(
        prompt_id=divergence.prompt_id,
        kind=divergence.kind,
        prompt=divergence.prompt[:_PROMPT_SHOWN],
        prompt_cut=max(0, len(divergence.prompt) - _PROMPT_SHOWN),
        share=words.share(divergence.shared_prefix),
        skipped=skipped,
        shared=shared[skipped:],
        a=_answer(divergence.a[len(shared) :]),
        b=_answer(divergence.b[len(shared) :]),
    )


def _answer(rest: str) -> Answer:
    return Answer(rest=rest[:_REST_SHOWN], cut=max(0, len(rest) - _REST_SHOWN))


def common_words(a: str, b: str) -> str:
    """The longest shared start of two texts that ends between words."""
    length = 0
    for left, right in zip(re.finditer(r"\s*\S+|\s+", a), re.finditer(r"\s*\S+|\s+", b), strict=False):
        if left.group() != right.group():
            break
        length = left.end()
    return a[:length]


def errors(record: Record) -> list[tuple[str, int]]:
    """Failed requests by their error, the most frequent first."""
    counts = Counter(row.error for run in record.runs for row in run.rows if row.error is not None)
    return counts.most_common()


def doubts(ab: Ab) -> list[tuple[str, str, str]]:
    """Doubts of all arms, each once: the arms that have it, its key, its text."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, arm in sorted(ab.arms.items()):
        for doubt in arm.plan.doubts:
            found.setdefault((doubt.key, doubt.text), []).append(name.upper())
    return [(" and ".join(arms), key, text) for (key, text), arms in found.items()]


def contexts(ab: Ab) -> list[ContextTable]:
    """The tables of contexts, one for arms whose tables say the same."""
    found: dict[tuple[str, frozenset[ContextLine]], list[str]] = {}
    for name, arm in sorted(ab.arms.items()):
        if arm.plan.contexts:
            found.setdefault((planned.of_contexts(arm.plan), frozenset(arm.plan.contexts)), []).append(name)
    return [
        _context_table(title, ab.arms[names[0]].plan, " and ".join(name.upper() for name in names))
        for (title, _), names in found.items()
    ]


def _context_table(title: str, plan: Plan, arms: str) -> ContextTable:
    lines, target = plan.contexts, plan.kv.context
    lengths = sorted({line.context for line in lines})
    beyond = {line.context for line in lines if line.beyond_native}
    cells = {(line.kv_dtype, line.context): line for line in lines}
    columns: dict[tuple[ContextCell | None, ...], list[str]] = {}
    for dtype in dict.fromkeys(line.kv_dtype for line in lines):
        column = tuple(_context_cell(cells.get((dtype, length))) for length in lengths)
        columns.setdefault(column, []).append(dtype)
    return ContextTable(
        arms=arms,
        title=title,
        dtypes=tuple(", ".join(dtypes) for dtypes in columns.values()),
        rows=tuple(
            (
                f"{'*' if length in beyond else ''}{length:,}{' (planned)' if length == target else ''}",
                tuple(column[index] for column in columns),
            )
            for index, length in enumerate(lengths)
        ),
        beyond=bool(beyond),
    )


def _context_cell(line: ContextLine | None) -> ContextCell | None:
    if line is None:
        return None
    return ContextCell(
        size=size(line.bytes_per_sequence), requests="" if line.concurrency is None else words.times(line.concurrency)
    )


def flags(ab: Ab) -> dict[str, list[Flag]]:
    """The flags of each arm that an arm before it does not have just so."""
    told: set[Flag] = set()
    found = {}
    for name, arm in sorted(ab.arms.items()):
        found[name] = [flag for flag in arm.plan.launch.flags if flag not in told]
        told |= set(arm.plan.launch.flags)
    return found


def blocks(record: Record) -> str:
    """The order in which the arms ran: "A B B A"."""
    return " ".join(run.arm.upper() for run in record.runs)


def arrivals(load: Load) -> str:
    """When requests were sent, and to which endpoint unless it is /v1/completions."""
    if load.rate is not None:
        cap = "" if load.concurrency is None else f", at most {load.concurrency:,} in flight"
        found = f"open loop, {words.number(load.rate)} requests a second{_gaps(load.burstiness)}{cap}"
    elif load.concurrency is not None:
        found = f"closed loop, {words.counted(load.concurrency, 'request')} in flight"
    else:
        found = "open loop, at the times of the data set"
    return found if load.endpoint == "completions" else f"{found}, chat endpoint"


def _gaps(burstiness: float | None) -> str:
    if burstiness is None:
        return " in even gaps"
    return "" if burstiness == 1 else f" in gaps of gamma shape {burstiness:g}"


def sent(load: Load, name: str) -> str:
    """How many of what were sent in every run: "32 prompts", or "8 conversations, all their turns"."""
    if load.turns == "all":
        return f"{words.counted(load.prompts, 'conversation')}, all their turns"
    return words.counted(load.prompts, name)


def foretold(row: Forecast) -> str:
    """The range of a forecast: "4 requests", "61.0 to 85.4 %", "yes"."""
    ends = list(dict.fromkeys(_of_forecast(row, end) for end in (row.low, row.high)))
    return " to ".join(ends) if row.unit != "yes or no" or len(ends) == 1 else "either"


def foretold_seen(row: Forecast) -> str:
    """What was then seen of it."""
    return words.ABSENT if row.seen is None else _of_forecast(row, row.seen)


def _of_forecast(row: Forecast, value: float) -> str:
    if row.unit == "yes or no":
        return "yes" if value else "no"
    return words.share(value) if row.unit == "share" else words.number(value)
