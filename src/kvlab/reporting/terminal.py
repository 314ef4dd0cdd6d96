"""What a person sees on a terminal: one renderable for each answer, verdict first.

Import this module only when a person is to read the answer: it imports rich. Every text of a model, a log or a file is
shown through `words.plain`, so that it can neither style nor steer the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from rich.console import Console, Group, RenderableType
from rich.text import Text

from kvlab.core.check import Check, CheckRow
from kvlab.core.comparison import Compare, ComparisonRow
from kvlab.core.measure import PoolUse
from kvlab.core.quality import Prefix
from kvlab.core.units import seconds
from kvlab.reporting import words
from kvlab.reporting.terminal_parts import bullets, facts, heading, indented, left, note, right, table, verdict_line
from kvlab.reporting.terminal_plan import plan
from kvlab.reporting.terminal_quality import quality
from kvlab.reporting.vllm_keys import LATENCIES, STATISTICS

_NARROWEST = 30
"""Below this nothing can be laid out, and no terminal in use is that narrow."""

__all__ = ["bench", "check", "compare", "plan", "prefix", "quality", "show"]


def show(renderable: RenderableType, console: Console | None = None) -> None:
    """Print without cutting long lines, so that a command stays whole when it is wider than the screen.

    Colours follow rich: none when the output is not a terminal or NO_COLOR is set.
    """
    (console or screen()).print(renderable, crop=False, highlight=False)


def screen(*, stderr: bool = False) -> Console:
    """An output as wide as COLUMNS or the terminal says; a width that no terminal has counts as not said."""
    console = Console(highlight=False, stderr=stderr)
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and not int(said):
        unsaid = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        console = Console(highlight=False, stderr=stderr, _environ=unsaid)
    if console.width < _NARROWEST:
        console = Console(highlight=False, stderr=stderr, width=_NARROWEST)
    return console


def check(value: Check) -> RenderableType:
    """The plan against the log, row by row, with the engine's own line under each row it stated."""
    planned = any(row.planned is not None for row in value.rows)
    engine = words.engine(value.engine)
    if not planned:
        body = table(left("quantity"), right(f"the {words.teller(value)} says"))
        for row in value.rows:
            body.add_row(Text(words.label(row.name)), Text(words.amount(row.seen, row.unit)))
        return Group(heading(f"What {engine} says"), *_refused(value), body, *_lines(value.rows))
    head: list[RenderableType] = [_check_verdict(value), *_refused(value), note(f"engine: {engine}")]
    remarks = bullets(map(words.plain, value.remarks))
    head += [*_causes(value), *([remarks] if value.remarks else [])]
    return Group(*head, _check_table(value), *_lines(value.rows))


def _causes(value: Check) -> list[RenderableType]:
    """What may explain the differences, the surest first."""
    if not value.causes:
        return []
    return [
        heading("Likely because"),
        bullets(f"{words.certainty(one, words.teller(value))}: {words.plain(one.text)}" for one in value.causes),
    ]


def _refused(value: Check) -> list[RenderableType]:
    if value.refused is None:
        return []
    return [Text("The engine refused to start; kvlab explain LOG says why and what to do")]


def _check_verdict(value: Check) -> Text:
    differ = sum(row.verdict == "differs" for row in value.rows)
    tally = words.tally(value)
    if differ:
        return verdict_line("differs", "The engine does not say what was planned", tally)
    if value.confirmed and value.exact:
        estimates = ", or lies in the planned range" if value.within else ""
        return verdict_line("agrees", f"The engine says what was planned{estimates}", tally)
    if value.confirmed:
        return verdict_line("agrees", "The engine's numbers lie within the planned ranges", tally)
    if value.within or value.exact:
        return verdict_line("not seen", "The plan is not confirmed: no size of the cache was stated", tally)
    return verdict_line("not seen", "The engine states none of the planned numbers", tally)


def _check_table(value: Check) -> RenderableType:
    body = table(
        left("quantity"),
        right("planned"),
        right(f"{words.teller(value)} says"),
        right("difference"),
        left("verdict", wraps=False),
    )
    for row in value.rows:
        body.add_row(
            Text(words.label(row.name)),
            Text(_planned(row)),
            Text(words.amount(row.seen, row.unit)),
            Text(words.difference(row)),
            Text(words.judged(row)),
        )
    return body


def _planned(row: CheckRow) -> str:
    text = words.amount(row.planned, row.unit)
    if row.low is None or row.high is None:
        return text
    return f"{text}\n({words.span(row.low, row.high, row.unit)})"


def _lines(rows: tuple[CheckRow, ...]) -> list[RenderableType]:
    """The engine's words, each log line once with the quantities read from it; then the reasons of what differs."""
    quoted: dict[str, list[str]] = {}
    for row in rows:
        if row.line:
            place = "" if row.line_number is None else f"line {row.line_number:,}: "
            quoted.setdefault(f"{place}{words.plain(row.line)}", []).append(words.label(row.name))
    out: list[RenderableType] = [heading("Read from these lines")] if quoted else []
    for line, names in quoted.items():
        out += [note(", ".join(names) + ":"), indented(line)]
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.verdict != "agrees" and (text := words.why(row)):
            reasons.setdefault(text, []).append(words.label(row.name))
    told = [f"{', '.join(names)}: {text}" for text, names in reasons.items()]
    return [*out, heading("Why"), bullets(told)] if told else out


def bench(metrics: Mapping[str, float], pool: PoolUse | None, remarks: Iterable[str] = ()) -> RenderableType:
    """The summary of one load run from the keys of vLLM's result file; what is absent is left out."""
    good = metrics.get("request_goodput")
    totals = [
        ("requests completed", words.number(metrics.get("completed"))),
        ("requests failed", words.number(metrics.get("failed"))),
        ("duration", seconds(metrics["duration"]) if "duration" in metrics else words.ABSENT),
        ("requests a second", words.number(metrics.get("request_throughput"))),
        *([("of them within the objectives", words.number(good))] if good is not None else []),
        ("output tokens a second", words.number(metrics.get("output_throughput"))),
        ("all tokens a second", words.number(metrics.get("total_token_throughput"))),
    ]
    body = table(left("latency (measured)"), *map(right, STATISTICS))
    for key, title in LATENCIES:
        cells = [metrics.get(f"{statistic}_{key}_ms") for statistic in STATISTICS]
        if any(cell is not None for cell in cells):
            body.add_row(Text(title), *(Text(_ms(cell)) for cell in cells))
    parts: list[RenderableType] = [heading("Load run"), facts(totals), Text(), body]
    noted = [words.plain(remark) for remark in remarks]
    tail: list[RenderableType] = [heading("Before you believe it"), bullets(noted)] if noted else []
    return Group(*parts, *(_pool(pool) if pool else []), *tail)


def _ms(value: float | None) -> str:
    return words.ABSENT if value is None else seconds(value / 1000)


def _pool(pool: PoolUse) -> list[RenderableType]:
    rows = [
        ("peak cache use", words.share(pool.peak_kv_used)),
        ("peak requests running", words.number(pool.peak_running)),
        ("peak requests waiting", words.number(pool.peak_waiting)),
        ("preemptions", words.number(pool.preemptions)),
        ("prefix hit rate", words.share(pool.prefix_hit_rate)),
    ]
    return [heading(f"The engine's own account (read, {words.counted(pool.samples, 'sample')})"), facts(rows)]


def compare(value: Compare) -> RenderableType:
    """B against A of two result files, and what cannot be compared."""
    files = [
        (name, f"{words.plain(file.file)} ({words.plain(file.format)})")
        for name, file in zip("AB", (value.a, value.b), strict=True)
    ]
    tail: list[RenderableType] = []
    for title, lines in (("Why", _reasons(value.rows)), ("Left out", _left_out(value))):
        tail += [heading(title), bullets(lines)] if lines else []
    remarks = [note(words.plain(remark)) for remark in value.remarks]
    return Group(*remarks, heading("B against A"), facts(files), Text(), comparison(value.rows), *tail)


def _reasons(rows: tuple[ComparisonRow, ...]) -> list[str]:
    """Each reason once, with the metrics it holds for."""
    metrics: dict[str, list[str]] = {}
    for row in rows:
        if row.because:
            metrics.setdefault(row.because, []).append(words.label(row.metric))
    return [
        f"{'all' if len(names) == len(rows) > 1 else ', '.join(names)}: {words.plain(reason)}"
        for reason, names in metrics.items()
    ]


def _left_out(value: Compare) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for item in value.left_out:
        reasons.setdefault(item.reason, []).append(words.label(item.metric))
    return [f"{', '.join(names)}: {words.plain(reason)}" for reason, names in reasons.items()]


def comparison(rows: tuple[ComparisonRow, ...]) -> RenderableType:
    """A table of metrics: both values, the change with its interval, the verdict."""
    body = table(
        left("metric"),
        right("A"),
        right("B"),
        right("change"),
        right("95 % interval"),
        left("verdict", wraps=False),
    )
    for row in rows:
        body.add_row(
            Text(words.metric_with_unit(row.metric, row.unit)),
            Text(words.bare(row.a, row.unit)),
            Text(words.bare(row.b, row.unit)),
            Text("none" if row.change is None else words.change(row.change)),
            Text(words.bounds(row.low, row.high)),
            Text(words.signed(row.verdict).removesuffix(" seen")),
        )
    return body


def prefix(value: Prefix) -> RenderableType:
    """Time to first token, cold against warm."""
    rows = [
        ("cold", words.seconds_interval(value.cold_ttft)),
        ("warm", words.seconds_interval(value.warm_ttft)),
        ("cold / warm", words.times_interval(value.speedup)),
        ("cached tokens (read)", words.share(value.cached_share)),
        ("rounds", f"{value.rounds:,}"),
    ]
    head = value.verdict.replace("prefix caching", "Prefix caching").replace(
        "inconclusive", "Prefix caching inconclusive"
    )
    verdict = verdict_line("", head, words.plain(value.because))
    return Group(verdict, note("time to first token (measured), with 95 % intervals"), facts(rows))
