"""A workload on a terminal: the limit first, then reuse, lengths, paging and moves."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from kvlab.core.breaker import Breakers
from kvlab.core.concurrency import Concurrency
from kvlab.core.traffic import CurvePoint, PolicyPoint, Replicas, Reuse, Tiers, Traffic, UnderLoad
from kvlab.core.units import listed, seconds, size
from kvlab.reporting import at_once, traffic_words, words
from kvlab.reporting.terminal_parts import bullets, filled, heading, left, note, right, table, verdict_line

_ROWS = 12
"""Points of the curve that are shown beside those asked for; all of them are in the JSON."""


def traffic(value: Traffic) -> RenderableType:
    """What a trace says, in the order in which it is acted upon."""
    how = "estimated" if value.counted == "estimate" else "computed"
    parts: list[RenderableType] = [
        _headline(value),
        *([Text(saves)] if (saves := at_once.freed(value.context)) is not None else []),
        note(_about(value)),
        heading(f"Tokens a request ({traffic_words.COUNTED[value.counted]})"),
        _lengths(value),
    ]
    if value.reuse is None:
        parts += [heading("Prefix reuse"), Text(traffic_words.no_reuse(value))]
    else:
        reused = how if value.reuse.sampled is None else "estimated"
        parts += [heading(f"Prefix reuse ({reused})"), *_reuse(value.reuse)]
    if value.breakers is not None:
        parts += [heading(f"What breaks the prefix ({how})"), *_breakers(value.breakers)]
    if value.concurrency is not None:
        parts += _at_once(value.concurrency)
    if value.load is not None:
        parts += [heading("Under load (simulated)"), *_load(value.load)]
    if value.paging:
        parts += [heading(f"Memory reserved and not used ({how})"), _paging(value)]
    parts += [heading("Moves"), bullets(f"{move.do}: {move.gain} ({move.because})" for move in value.moves)]
    if named := traffic_words.codes(value):
        parts.append(note(f"kvlab explain CODE prints the page of one: {', '.join(named)}"))
    if value.doubts:
        parts += [heading("Doubts"), bullets(f"{doubt.key}: {words.plain(doubt.text)}" for doubt in value.doubts)]
    return Group(*parts)


def _headline(value: Traffic) -> Text:
    """What a limit would cut, and the one that cuts nothing: which of them is right is not in the trace."""
    limit = value.context
    if not limit.truncated:
        return verdict_line("", traffic_words.limit_head(limit), limit.because)
    head = traffic_words.limit_head(limit)
    whole = "" if limit.holds_all is None else f"; {limit.holds_all:,} tokens hold all"
    return Text.assemble((head, "bold"), f" ({limit.because.partition(';')[0]}){whole}")


def _about(value: Traffic) -> str:
    files = ", ".join(words.plain(name) for name in value.files)
    return f"{files}: {traffic_words.about(value)}"


def _lengths(value: Traffic) -> RenderableType:
    grid = table(left(""), *(right(name) for name in traffic_words.NUMBERS))
    for name, found in traffic_words.columns(value):
        grid.add_row(Text(name), *(Text(f"{number:,.0f}") for number in traffic_words.numbers(found)))
    return grid


def _reuse(value: Reuse) -> list[RenderableType]:
    ideal = value.ideal
    said = Text(
        f"an endless cache hits {words.share(ideal.token_weighted)} of the tokens and"
        f" {words.share(ideal.block_weighted)} of the {value.blocks:,} blocks of {value.block_size} tokens"
    )
    columns = [right(name) for name in ("cache, tokens", "blocks", "bytes", "tokens hit", "blocks hit", "+/-")]
    rows = [
        (
            f"{point.capacity_tokens:,}",
            f"{point.capacity_blocks:,}",
            "" if point.capacity_bytes is None else size(point.capacity_bytes),
            words.share(point.token_hit_rate),
            words.share(point.hit_rate),
            "" if point.error is None else words.share(point.error),
        )
        for point in _shown(value)
    ]
    parts: list[RenderableType] = [said, filled(columns, rows), note(f"LRU: {value.definition}")]
    if value.sampled is not None:
        of = value.sampled
        seen = f"estimated from {of.references:,} references to {of.blocks:,} blocks, {100 * of.rate:g} % of all"
        parts.append(note(f"{seen}, within {100 * of.error:.2g} points; {of.definition}"))
    if value.policies:
        parts += [heading("Policies"), _policies(value.policies)]
    if value.tiers is not None:
        parts += [heading(f"Tiers ({value.tiers.kind})"), *_tiers(value.tiers)]
    if value.replicas is not None:
        parts += [heading(f"{value.replicas.count} replicas"), *_replicas(value.replicas)]
    return parts


def _policies(points: tuple[PolicyPoint, ...]) -> RenderableType:
    names = traffic_words.policy_names(points)
    grid = table(right("blocks"), *(right(traffic_words.policy(name)) for name in names))
    for at in dict.fromkeys(point.capacity_blocks for point in points):
        rates = {point.policy: words.share(point.hit_rate) for point in points if point.capacity_blocks == at}
        grid.add_row(Text(f"{at:,}"), *(Text(rates[name]) for name in names))
    return grid


def _tiers(value: Tiers) -> list[RenderableType]:
    names = ("blocks", "bytes", "blocks hit", "TTFT saved a request")
    rows = [
        (
            words.plain(one.name),
            f"{one.capacity_blocks:,}",
            "" if one.capacity_bytes is None else size(one.capacity_bytes),
            words.share(one.hit_rate),
            "" if one.ttft_saved_seconds is None else traffic_words.saved(one.ttft_saved_seconds),
        )
        for one in value.tiers
    ]
    grid = filled([left("tier"), *(right(name) for name in names)], rows)
    total = f"together they hit {words.share(value.hit_rate)} of the blocks"
    if value.ttft_saved_seconds is not None:
        total += f" and save {traffic_words.saved(value.ttft_saved_seconds)} a request"
    return [Text(total), grid, note(value.definition)]


def _replicas(value: Replicas) -> list[RenderableType]:
    grid = table(left("routing"), right("blocks hit"), right("busiest"))
    for one in value.routing:
        busiest = "" if one.busiest is None else f"{one.busiest:.2f} x the mean"
        grid.add_row(Text(one.name), Text(words.share(one.hit_rate)), Text(busiest))
    return [grid, note(value.definition)]


def _at_once(value: Concurrency) -> list[RenderableType]:
    """How many requests are served at a time, what the pool has to spare, and what closes the gap."""
    parts: list[RenderableType] = [heading(f"Requests at once ({at_once.kind(value)})"), Text(at_once.line(value))]
    if (said := at_once.pool_line(value)) is not None:
        parts.append(Text(said))
    if value.moves:
        columns = [left("what closes the gap, the cheapest first"), right("holds"), right("needs"), left("enough")]
        parts.append(filled(columns, at_once.rows(value)))
    return [*parts, note(value.definition)]


def _load(value: UnderLoad) -> list[RenderableType]:
    """Pools of several sizes: what requests wait for."""
    names = ("blocks", "waited p99", "TTFT p50", "TTFT p99", value.preemption_word, "hit tokens", "at once")
    grid = table(*(right(name) for name in names))
    for one in value.pools:
        times = (seconds(time / 1000) for time in (one.waited.p99, one.ttft.p50, one.ttft.p99))
        hits = "not known" if one.hit_tokens is None else f"{one.hit_tokens:,}"
        counts = (f"{one.preemptions:,}", hits, f"{one.most_running:,}")
        grid.add_row(*(Text(cell) for cell in (f"{one.pool_blocks:,}", *times, *counts)))
    left_out = [
        Text(f"{words.counted(one.too_large, 'request')} would never fit into {one.pool_blocks:,} blocks")
        for one in value.pools
        if one.too_large
    ]
    sizes = [f"{one.pool_blocks:,} are {size(one.pool_bytes)}" for one in value.pools if one.pool_bytes is not None]
    said = f"pools of blocks of {words.counted(value.block_size, 'token')}"
    return [Text(f"{said}: {listed(sizes)}" if sizes else said), grid, *left_out, note(value.definition)]


def _breakers(value: Breakers) -> list[RenderableType]:
    """What keeps prompts from sharing their prefixes, the costliest first."""
    if not value.found:
        return [Text("nothing: prompts that are alike share all that they can")]
    of = "the prompt tokens" if value.whole_log else f"the prompt tokens of the first {value.requests:,} requests"
    said = Text(
        f"an endless cache hits {words.share(value.hit_rate)} of {of}, and"
        f" {words.share(value.fixed_hit_rate)} once these are fixed"
        + (f"; the rewritten log is {words.plain(value.written)}" if value.written else "")
    )
    grid = table(left("cause"), left("where"), right("requests"), right("first token"), right("tokens lost"))
    for one in value.found:
        share = f"{one.requests:,} of {one.group:,}"
        row = (one.title, one.where, share, f"{one.first_token:,}", f"{one.tokens:,}")
        grid.add_row(*(Text(cell) for cell in row))
    fixes = dict.fromkeys(f"{one.title}: {one.fix} (as {one.seen} show)" for one in value.found)
    return [said, grid, bullets(fixes)]


def _shown(value: Reuse) -> list[CurvePoint]:
    """A few points, evenly, of those between which the curve changes, and each size that was asked for."""
    curve = traffic_words.changing(value)
    step = max(1, -(-len(curve) // _ROWS))
    last = len(curve) - 1
    return [
        point
        for at, point in enumerate(curve)
        if (last - at) % step == 0 or point.capacity_blocks in value.asked_blocks
    ]


def _paging(value: Traffic) -> RenderableType:
    grid = table(left("reserved"), right("waste"))
    for line in value.paging:
        grid.add_row(Text(line.scheme), Text(traffic_words.waste(line.waste)))
    return Group(grid, note(traffic_words.SCHEMES))
