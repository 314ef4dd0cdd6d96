"""The answers to a plan asked backwards, on a terminal: which GPUs, how long a context, what buys what."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from kvlab.core.plan import Plan
from kvlab.core.sizing import Candidate, Candidates, LongestContext, MatrixLine
from kvlab.core.units import gib
from kvlab.reporting import words
from kvlab.reporting.terminal_parts import heading, left, note, right, table

_HOLDS = {"holds": "holds", "may_hold": "may hold"}
_LEGEND = "holds: at both ends of the estimate's range; may hold: at its middle, not at its low end"


def sizing(value: Plan) -> list[RenderableType]:
    """The parts that the plan was asked for; nothing for the others."""
    parts: list[RenderableType] = []
    if value.candidates is not None and value.candidates.rows:
        found = value.candidates
        parts += [heading(f"What serves {found.users:,} requests of {found.context:,} tokens"), *_rows(found)]
        parts.append(note(f"to plan the first of them, add {_options(found.rows[0])}"))
    if any(not line.native or line.low < line.tokens for line in value.longest_context):
        parts += [heading("Longest context that fits"), _longest(value.longest_context)]
    if value.matrix:
        parts += [heading(f"Requests at once ({value.matrix[0].kind})"), *_matrix(value.matrix)]
    if value.pareto is not None:
        parts += [heading("What no other choice beats in requests, context, cost and dtype"), *_rows(value.pareto)]
    return parts


def _rows(found: Candidates) -> list[RenderableType]:
    priced = found.sorted_by == "price"
    long = len({row.context for row in found.rows}) > 1
    columns = [left("GPUs", wraps=False), left("split"), left("cache", wraps=False)]
    columns += [right("context")] if long else []
    columns += [right("at once"), right("$ an hour" if priced else "memory"), left("verdict", wraps=False)]
    body = table(*columns)
    for row in found.rows:
        cells = [f"{row.gpus} x {words.plain(row.gpu)}", row.split(), words.plain(row.kv_dtype)]
        cells += [f"{row.context:,}"] if long else []
        cells += [_between(row), _cost(row, priced), _HOLDS[row.verdict]]
        body.add_row(*map(Text, cells))
    order = "cheapest first" if priced else "least memory first; give --price GPU=USD to sort by cost"
    more = f"{words.counted(found.left_out, 'more row')} (--limit); " if found.left_out else ""
    legend = [note(_LEGEND)] if any(row.kind == "estimated" for row in found.rows) else []
    return [
        body,
        *legend,
        note(f"{more}{found.gpus_tried} kinds of GPU tried, up to {found.most_gpus} of each; {order}"),
    ]


def _options(row: Candidate) -> str:
    """The options that plan a candidate. Replicas are servers of their own for engines without --dp."""
    sizes = (("tp", row.tp), ("pp", row.pp), ("dcp", row.dcp))
    split = [f"--{name} {size}" for name, size in sizes if size > 1]
    return words.plain(" ".join([f"--gpu {row.gpu}", *split, f"--kv-dtype {row.kv_dtype}"]))


def _between(row: Candidate) -> str:
    return f"{row.concurrency:,}" if row.low == row.high else f"{row.concurrency:,} ({row.low:,} to {row.high:,})"


def _cost(row: Candidate, priced: bool) -> str:
    if not priced:
        return gib(row.memory_bytes)
    return "" if row.usd_per_hour is None else f"{row.usd_per_hour:,.2f}"


def _longest(lines: tuple[LongestContext, ...]) -> RenderableType:
    body = table(left("cache dtype"), right("tokens"), left("where it comes from"))
    for line in lines:
        ends = "the model's own context" if line.native and line.low == line.tokens else line.kind
        between = f", {line.low:,} to {line.high:,}" if line.low != line.high else ""
        body.add_row(Text(words.plain(line.kv_dtype)), Text(f"{line.tokens:,}"), Text(ends + between))
    return body


def _matrix(lines: tuple[MatrixLine, ...]) -> list[RenderableType]:
    cells = {(line.tp, line.kv_dtype, line.context): line for line in lines}
    pairs = list(dict.fromkeys((line.tp, line.kv_dtype) for line in lines if line.kv_dtype))
    sizes = list(dict.fromkeys(line.tp for line in lines if line.kv_dtype))
    contexts = sorted({line.context for line in lines if line.kv_dtype})
    dtypes = list(dict.fromkeys(dtype for _, dtype in pairs))
    body = table(right("context"), left("cache", wraps=False), *(right(f"TP {size}") for size in sizes))
    for context in contexts:
        for dtype in dtypes:
            row = [cells.get((size, dtype, context)) for size in sizes]
            if any(line is not None and line.concurrency is not None for line in row):
                body.add_row(Text(f"{context:,}"), Text(words.plain(dtype)), *(Text(_cell(line)) for line in row))
    refused = {line.refused: line for line in lines if line.refused}
    return [body, *(note(words.plain(f"TP {line.tp} {line.kv_dtype}: {why}")) for why, line in refused.items())]


def _cell(line: MatrixLine | None) -> str:
    if line is None or line.concurrency is None:
        return "-"
    return f"{int(line.concurrency * 100) / 100:,.2f}"
