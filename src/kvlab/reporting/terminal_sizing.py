"""The answers to a plan asked backwards, on a terminal: which GPUs, how long a context, what buys what."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from kvlab.core.plan import Ask, Plan
from kvlab.core.sizing import Candidate, Candidates, LongestContext, MatrixLine
from kvlab.core.units import gib
from kvlab.reporting import words
from kvlab.reporting.terminal_parts import heading, left, note, right, table

_HOLDS = {"holds": "holds", "may_hold": "may hold"}
_NAMES = 6
"""Kinds of GPU that are named for one reason; the rest are counted."""
_ORDER = {
    "price": "cheapest first, those without a price by machines, GPUs and memory",
    "gpus": "fewest machines (of 8) first, then fewest GPUs, then least memory, shared memory last;"
    " give --price GPU=USD to sort by cost",
    "memory": "least memory first; give --price GPU=USD to sort by cost",
}


def sizing(value: Plan) -> list[RenderableType]:
    """The parts that the plan was asked for; nothing for the others."""
    parts: list[RenderableType] = []
    if value.candidates is not None:
        parts += _candidates(value.candidates, value)
    if any(not line.native or line.low < line.tokens for line in value.longest_context):
        parts += [heading("Longest context that fits"), _longest(value.longest_context)]
    if value.matrix:
        parts += [heading(f"Requests at once ({value.matrix[0].kind})"), *_matrix(value.matrix)]
    if value.pareto is not None:
        parts += _pareto(value.pareto, value)
    return parts


def _candidates(found: Candidates, value: Plan) -> list[RenderableType]:
    what = words.counted(found.users, "request")
    title = f"What serves {what} of {found.context:,} tokens"
    if not found.rows:  # the verdict says so
        return [heading(title), *_kinds(found, value)] if found.not_run else []
    first = "rows that hold first, then " if any(row.verdict == "may_hold" for row in found.rows) else ""
    table_and_notes = _rows(found, order=first + _ORDER[found.sorted_by])
    return [heading(title), *table_and_notes, *_kinds(found, value), note(_planned(found, value))]


def _pareto(found: Candidates, value: Plan) -> list[RenderableType]:
    what = words.counted(found.users, "request")
    cost = "cost" if found.sorted_by == "price" else "memory"
    if not found.rows:
        body: list[RenderableType] = [note(f"no split of one copy over up to {found.most_gpus} GPUs holds {what}")]
    else:
        priced = "cheapest first; kinds without a price are not compared"
        body = _rows(found, order=priced if found.sorted_by == "price" else _ORDER["memory"], long=True)
    title = f"What no other choice beats in requests, context, {cost} and dtype, among what holds {what}"
    return [heading(title), *body, *([] if value.candidates is not None else _kinds(found, value))]


def _planned(found: Candidates, value: Plan) -> str:
    """What the rest of the plan is of, and how to have it alone."""
    best = found.best
    own = best.verdict == "holds" and value.ask.dp == best.dp
    options = f"to plan it alone, add {_options(best, best.dp if own else 1, value.ask)}"
    if best.verdict != "holds":
        return f"no row surely holds them, so there is no launch command; the first: {options}"
    if own:
        return f"planned below: {best.gpus} x {words.plain(best.gpu)}; {options}"
    one = f"one of {best.dp} servers that share the requests, {best.gpus // best.dp} x {words.plain(best.gpu)}"
    return f"planned below: {one}; {options} --users {value.ask.users}"


def _kinds(found: Candidates, value: Plan) -> list[RenderableType]:
    """What was asked for and not tried, with the reason."""
    if not found.not_run:
        return []
    engine = f"{words.plain(value.engine.name)} {words.plain(value.engine.version)}"
    missing = "; ".join(f"{_some(each.gpus)} ({words.plain(each.reason)})" for each in found.not_run)
    return [note(f"not tried, {engine} is not known to run on them: {missing}")]


def _some(names: tuple[str, ...]) -> str:
    shown, more = names[:_NAMES], len(names) - _NAMES
    return words.plain(", ".join(shown)) + (f" and {more} more" if more > 0 else "")


def _rows(found: Candidates, *, order: str, long: bool = False) -> list[RenderableType]:
    """The table, with a column for the context where `long`, and what its words mean."""
    priced = found.sorted_by == "price"
    columns = [left("GPUs", wraps=False), left("split"), left("cache", wraps=False)]
    columns += [right("context")] if long else []
    columns += [right("at once"), right("$ an hour" if priced else "memory"), left("verdict", wraps=False)]
    body = table(*columns)
    for row in found.rows:
        mark = "*" if row.shared_memory else ""
        cells = [f"{row.gpus} x {words.plain(row.gpu)}{mark}", row.split(), words.plain(row.kv_dtype)]
        cells += [f"{row.context:,}"] if long else []
        cells += [_between(row), _cost(row, priced), _HOLDS[row.verdict]]
        body.add_row(*map(Text, cells))
    more = f"{words.counted(found.left_out, 'more row')} (--limit); " if found.left_out else ""
    tried = f"{found.gpus_tried:,} {'kind' if found.gpus_tried == 1 else 'kinds'} of GPU tried"
    legend = [note(_legend(found))] if any(row.kind == "estimated" for row in found.rows) else []
    legend += [note("* memory shared with the system")] if any(row.shared_memory for row in found.rows) else []
    return [body, *legend, note(f"{more}{tried}, up to {found.most_gpus} of each; {order}")]


def _legend(found: Candidates) -> str:
    what = words.counted(found.users, "request")
    return f"holds: {what} at both ends of the estimate's range; may hold: at its middle, not at its low end"


def _options(row: Candidate, replicas: int, ask: Ask) -> str:
    """The options that plan a candidate. Replicas are servers of their own for engines without --dp."""
    sizes = (("tp", row.tp), ("pp", row.pp), ("dp", replicas), ("dcp", row.dcp))
    split = [f"--{name} {size}" for name, size in sizes if size > 1]
    apart = [("k", ask.kv_dtype_k), ("v", ask.kv_dtype_v)]
    own = [f"--kv-dtype-{side} {dtype}" for side, dtype in apart if dtype is not None]
    stored = own if ask.kv_dtype is None and own else [f"--kv-dtype {ask.kv_dtype if own else row.kv_dtype}", *own]
    return words.plain(" ".join([f"--gpu {row.gpu}", *split, *stored]))


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
    return words.requests(line.concurrency)
