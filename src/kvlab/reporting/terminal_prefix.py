"""The prefix experiment on a terminal: the quick part, then the parts that were asked for."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from kvlab.core.prefix import CounterRow, PrefixBlock, PrefixChurn, PrefixLengths, PrefixSalts
from kvlab.core.quality import Prefix
from kvlab.core.units import seconds
from kvlab.reporting import terminal, words
from kvlab.reporting.terminal_parts import heading, left, note, right, table, verdict_line

_COUNTERS = {
    "prompt_tokens_total": "prompt tokens",
    "prefix_queries_tokens_total": "looked up",
    "prefix_hits_tokens_total": "found (hits)",
}
_SALTS = {"none": "no salt", "first": "a salt", "second": "another salt"}


def prefix(value: Prefix) -> RenderableType:
    """All parts that ran; the counters last, because they are of every part."""
    parts: list[RenderableType] = [terminal.prefix(value)]
    if value.lengths is not None:
        parts += [heading("Over the length of the prefix (measured)"), *_lengths(value.lengths)]
    if value.block is not None:
        parts += [heading("Block size (measured)"), *_block(value.block)]
    if value.salts is not None:
        parts += [heading("Tenants' salts (measured)"), *_salts(value.salts)]
    if value.churn is not None:
        parts += [heading("Many prefixes (measured)"), *_churn(value.churn)]
    if any(row.verdict != "not seen" for row in value.counters):
        parts += [heading("The engine's counters against what was sent (read)"), *_counters(value.counters)]
    return Group(*parts)


def _lengths(value: PrefixLengths) -> list[RenderableType]:
    grid = table(right("prefix, tokens"), *(right(name) for name in ("cold", "warm", "cold / warm", "saved", "cached")))
    for point in value.points:
        grid.add_row(
            Text(f"{point.prefix_tokens:,}"),
            Text(words.seconds_interval(point.cold_ttft)),
            Text(words.seconds_interval(point.warm_ttft)),
            Text(words.times_interval(point.speedup)),
            Text(f"{point.saved_seconds.value:.3g} s"),
            Text(words.share(point.cached_share)),
        )
    head = verdict_line("", value.verdict.capitalize(), words.plain(value.because))
    return [head, grid, note(f"time to first token, {value.rounds} rounds, with 95 % intervals")]


def _block(value: PrefixBlock) -> list[RenderableType]:
    grid = table(right("tokens shared"), right("tokens cached"))
    for probe in value.probes:
        cached = words.ABSENT if probe.cached_tokens is None else f"{probe.cached_tokens:,}"
        grid.add_row(Text(f"{probe.shared_tokens:,}"), Text(cached))
    size = "Block size not seen" if value.block_size is None else f"{words.counted(value.block_size, 'token')}"
    return [verdict_line(value.verdict, size, words.plain(value.because)), grid]


def _salts(value: PrefixSalts) -> list[RenderableType]:
    grid = table(left("sent with"), left(""), right("tokens cached"))
    for probe in value.probes:
        cached = words.ABSENT if probe.cached_tokens is None else f"{probe.cached_tokens:,}"
        grid.add_row(
            Text(_SALTS[probe.salt]), Text("again" if probe.repeat else ""), Text("refused" if probe.error else cached)
        )
    of = "" if value.prompt_tokens is None else f"of {value.prompt_tokens:,} prompt tokens"
    return [verdict_line("", value.verdict.capitalize(), words.plain(value.because)), grid, note(of)]


def _churn(value: PrefixChurn) -> list[RenderableType]:
    simulated = value.simulated is not None
    names = ["prefixes", "tokens", "hit", *(["hit, simulated"] if simulated else []), "time to first token"]
    grid = table(*(right(name) for name in names))
    for point in value.points:
        lru = [Text(words.share(point.lru_hit_share))] if simulated else []
        time = words.ABSENT if point.ttft is None else seconds(point.ttft.value)
        grid.add_row(
            Text(f"{point.prefixes:,}"), Text(f"{point.tokens:,}"), Text(words.share(point.hit_share)), *lru, Text(time)
        )
    head = verdict_line(value.verdict, f"Pool's end {value.verdict}", words.plain(value.because))
    below = f"prefixes of {value.prefix_tokens:,} tokens, visited in turn; the second visit is shown"
    return [head, grid, note(f"{below}; simulated: {value.simulated}" if simulated else below)]


def _counters(rows: tuple[CounterRow, ...]) -> list[RenderableType]:
    grid = table(left("part"), left("counter"), right("sent"), right("counted"), left("verdict"), left("because"))
    for row in rows:
        sent, counted = (words.ABSENT if number is None else f"{number:,}" for number in (row.sent, row.counted))
        grid.add_row(
            Text(row.part),
            Text(_COUNTERS.get(row.counter, row.counter)),
            Text(sent),
            Text(counted),
            Text(words.signed(row.verdict)),
            Text(words.plain(row.because)),
        )
    return [grid, note("sent: prompt tokens by the answers' usage; for hits, what usage calls cached")]
