"""The plan on a terminal: its first screen answers whether it fits, what a token costs, and where the memory goes."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from kvlab.core.plan import Alternative, Capacity, ContextLine, LedgerLine, Plan
from kvlab.core.units import size
from kvlab.reporting import planned, words
from kvlab.reporting.terminal_parts import (
    FirstThatFits,
    Sheet,
    bullets,
    facts,
    heading,
    left,
    note,
    right,
    table,
    verdict_line,
)
from kvlab.reporting.terminal_sizing import sizing
from kvlab.reporting.terminal_speed import speed
from kvlab.reporting.terminal_tiers import tiers

_CONTEXT_DTYPES = 3
"""Cache dtypes that fit beside each other on 80 columns."""


def plan(value: Plan) -> RenderableType:
    """All of a plan, verdict first."""
    verdict = value.verdict
    head, text = ("Which GPUs", verdict.text) if value.candidates is not None else planned.headline(value)
    roomy = planned.missing(value) is None
    parts: list[RenderableType] = [
        verdict_line("does_not_fit" if head == planned.NOT_HERE_HEAD else verdict.code, head, words.plain(text)),
        note(_subject(value)),
        heading("Cache"),
        facts(_cost(value)),
    ]
    parts += sizing(value) + speed(value.speed)
    if value.ledger:
        parts += [heading(f"Memory of {planned.place(value)}"), _ledger(value.ledger)]
        guesses = planned.replaceable(value)
        parts += [note(guesses)] if guesses else []
    parts += tiers(value)
    if value.alternatives and value.capacity is not None and roomy:
        parts += [
            heading(f"The same pool with another cache dtype ({planned.of_alternatives(value)})"),
            _alternatives(value.alternatives),
        ]
    if value.contexts:
        parts += [heading(planned.of_contexts(value)), _contexts(value.contexts, value.kv.dtype)]
    if verdict.moves:
        parts += [heading("What would make more room"), bullets(planned.moves(verdict.moves))]
    if value.doubts:
        doubts = [f"{words.plain(doubt.key)}: {words.plain(doubt.text)}" for doubt in value.doubts]
        parts += [heading("Doubts"), bullets(doubts)]
    return Group(*parts, *_launch(value))


def _subject(value: Plan) -> str:
    revision = f" at {words.plain(value.source.revision)}" if value.source.revision else ""
    source = f"{words.plain(value.source.name)} ({value.source.kind}{revision})"
    chosen = ", the default for a GGUF file" if value.ask.any_engine and value.source.kind == "gguf" else ""
    return f"{source}, {words.plain(value.engine.name)} {words.plain(value.engine.version)}{chosen}"


def _cost(value: Plan) -> list[tuple[str, str]]:
    kv = value.kv
    rows = [("cache dtype", words.plain(kv.dtype)), ("one token", f"{size(kv.bytes_per_token)} (computed)")]
    if kv.bytes_per_sequence is not None and kv.context is not None:
        rows.append((f"one request of {kv.context:,} tokens", f"{size(kv.bytes_per_sequence)} (computed)"))
    missing = planned.missing(value)
    if missing is not None:
        rows.append(("pool", missing))
    elif value.capacity:
        rows += _capacity(value, value.capacity)
    else:
        rows.append(("pool", "unknown: the verdict says why"))
    for line in value.layout:
        keeps = f"{size(line.bytes_per_token)} a token" if line.bytes_per_token else "nothing a token"
        window = f", the last {line.window:,} tokens" if line.window else ""
        state = f", {size(line.bytes_per_sequence)} a sequence" if line.kind == "state" else ""
        rows.append((f"{line.layers:,} {words.plain(line.kind)} layers", f"{keeps}{window}{state} (computed)"))
    return rows


def _capacity(value: Plan, capacity: Capacity) -> list[tuple[str, str]]:
    return [
        ("pool", planned.pool(value, capacity).line()),
        ("blocks", planned.blocks(value, capacity).line()),
        ("tokens in the pool", planned.tokens(value, capacity).line()),
        ("requests at once", planned.concurrency(value, capacity).line()),
        ("longest single request", planned.longest(value, capacity).line()),
    ]


def _ledger(lines: tuple[LedgerLine, ...]) -> Sheet:
    body = table(left("line"), right("amount"), left("where it comes from"), left("because"))
    for line in lines:
        origin = ", ".join(filter(None, (line.kind, planned.between(line))))
        strong, name = ("bold", "pool") if line.name == "pool" else ("", words.label(line.name))
        amount, because = size(line.bytes), words.plain(line.because)
        if line.name == "pool" and line.bytes <= 0:
            name, amount, because = "missing", size(-line.bytes), "there is no room for a cache"
        body.add_row(Text(name, style=strong), Text(amount, style=strong), Text(origin), Text(because))
    return body


def _alternatives(lines: tuple[Alternative, ...]) -> Sheet:
    body = table(left("cache dtype"), right("tokens"), right("requests at once"), left("one request fits"))
    for line in lines:
        fits = {True: "yes", False: "no", None: "unknown"}[line.fits]
        tokens = "unknown" if line.tokens is None else f"{line.tokens:,}"
        concurrency = "unknown" if line.max_concurrency is None else words.requests(line.max_concurrency)
        body.add_row(Text(words.plain(line.kv_dtype)), Text(tokens), Text(concurrency), Text(fits))
    return body


def _contexts(lines: tuple[ContextLine, ...], used: str) -> RenderableType:
    contexts = list(dict.fromkeys(line.context for line in lines))
    beyond = {line.context for line in lines if line.beyond_native}
    cells = {(line.kv_dtype, line.context): line for line in lines}
    columns: dict[tuple[str, ...], str] = {}
    for dtype in sorted(dict.fromkeys(line.kv_dtype for line in lines), key=lambda dtype: dtype != used):
        columns.setdefault(tuple(_cell(cells.get((dtype, context))) for context in contexts), dtype)
    # Beside the dtype in use, those that store less: a larger one answers no question of capacity.
    size_of = {
        dtype: sum(line.bytes_per_sequence for line in lines if line.kv_dtype == dtype) for dtype in columns.values()
    }
    order = sorted(columns.items(), key=lambda item: size_of[item[1]] > size_of.get(used, 0))
    marked = [f"{'*' if context in beyond else ''}{context:,}" for context in contexts]
    choices = [_context_columns(marked, order, count) for count in range(min(len(order), _CONTEXT_DTYPES), 0, -1)]
    notes = [note("* longer than the model was made for: arithmetic only")] if beyond else []
    return Group(FirstThatFits(*choices), *notes)


def _context_columns(
    contexts: list[str], order: list[tuple[tuple[str, ...], str]], count: int
) -> tuple[Sheet, list[RenderableType]]:
    """The first `count` dtypes as columns, and the names of the others."""
    shown, hidden = order[:count], order[count:]
    body = table(right("context"), *(right(words.plain(dtype)) for _, dtype in shown))
    for index, context in enumerate(contexts):
        body.add_row(Text(context), *(Text(column[index]) for column, _ in shown))
    names = ", ".join(words.plain(dtype) for _, dtype in hidden)
    return body, [note(f"also in --json: {names}")] if hidden else []


def _cell(line: ContextLine | None) -> str:
    if line is None:
        return ""
    many = "" if line.concurrency is None else f"  {words.times(line.concurrency)}"
    return f"{size(line.bytes_per_sequence)}{many}"


def _change(value: Plan) -> str | None:
    """What the refused command lacks, when another cache dtype is all that it takes."""
    if value.verdict.code != "fits_with_smaller_dtype":
        return None
    fits = next((line.kv_dtype for line in value.alternatives if line.fits and line.kv_dtype != value.kv.dtype), None)
    return None if fits is None else f"it starts with --kv-dtype {words.plain(fits)}: add it here for that command"


def _launch(value: Plan) -> list[RenderableType]:
    launch = value.launch
    parts: list[RenderableType] = []
    if launch.argv:
        command = Text(words.shell(launch.argv, launch.env), no_wrap=True, overflow="ignore")
        fits = value.verdict.code in ("fits", "unknown")
        parts += [
            heading("Launch" if fits else "Launch, once the plan fits: the engine refuses this as it is"),
            command,
        ]
        parts += [note(text) for text in (_change(value), launch.lacks and words.plain(launch.lacks)) if text]
    for name, content in launch.files.items():
        body = Text(words.plain(content).rstrip(), no_wrap=True, overflow="ignore")
        parts += [heading(f"File {words.plain(name)}"), body]
    if launch.flags:
        body_table = table(left("flag"), left("value"), left("trade-off"))
        for flag in launch.flags:
            cells = (flag.flag, flag.value or "", flag.because)
            body_table.add_row(*(Text(words.plain(cell)) for cell in cells))
        parts += [heading("Why these flags"), body_table]
    return parts
