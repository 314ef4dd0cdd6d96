"""Charts of the plan: where the memory goes, and what each cache dtype would hold."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import altair as alt

from kvlab.core.plan import Alternative, LedgerLine, Plan
from kvlab.core.record import Record
from kvlab.core.units import GIB, MIB, size
from kvlab.reporting import planned, words
from kvlab.reporting.charts.drawing import ARM_A, ARM_B, BAND, INK, PAGE, SERIES, WIDTH, Drawing, arm_name, data

_WIDE: Final = 4
"""An estimate whose high end is more than this many times its low end is named, not drawn."""


class _Part(NamedTuple):
    """A piece of a bar: bytes, and for what an estimate leaves over, the range in which it may begin."""

    name: str
    amount: int
    spread: tuple[int, int] | None = None
    """How much more and how much less than `amount` it may be."""


def ledger(record: Record) -> Drawing | None:
    """The ledger of each arm as one bar, numbered as in the legend; guesses too wide to be drawn are named beside."""
    arms = record.ab.arms if record.ab else {}
    parts = {arm_name(record, arm): _parts(arms[arm].plan.ledger) for arm in sorted(arms)}
    names = list(dict.fromkeys(part.name for line in parts.values() for part in line))
    whole = max((sum(part.amount for part in line) for line in parts.values()), default=0)
    if not whole:
        return None
    unit, unit_name = (GIB, "GiB") if whole >= 4 * GIB else (MIB, "MiB")
    legend = {name: f"{index} {name}" for index, name in enumerate(names, 1)}
    rows = [row for arm, line in parts.items() for row in _pieces(arm, line, legend, unit)]
    colours = alt.Scale(
        domain=list(legend.values()), range=[SERIES[index % len(SERIES)] for index in range(len(names))]
    )
    base = alt.Chart(data(rows)).encode(y=alt.Y("arm:N", title=None, axis=alt.Axis(ticks=False, domain=False)))
    bars = base.mark_bar(size=34, stroke=PAGE, strokeWidth=1.5).encode(
        x=alt.X("start:Q", title=unit_name, scale=alt.Scale(domain=[0, whole / unit], nice=False)),
        x2="end:Q",
        color=alt.Color("part:N", scale=colours, legend=alt.Legend(columns=3, symbolType="square")),
    )
    wide = base.transform_filter(f"datum.end - datum.start > {whole / unit / 30}")
    digits = wide.mark_text(color=PAGE, fontWeight="bold").encode(x="middle:Q", text="digit:N")
    ranged = base.transform_filter("datum.least !== null").mark_rule(color=INK, strokeWidth=2, yOffset=22)
    plans = [arms[arm].plan for arm in sorted(arms)]
    return Drawing(
        name="ledger",
        title="Where the memory goes",
        text=_ledger_text(plans, ranged=any(row["least"] is not None for row in rows)),
        chart=alt.layer(bars, digits, ranged.encode(x="least:Q", x2="most:Q")).properties(
            width=WIDTH - 90, height=56 * len(parts)
        ),
    )


def _pieces(arm: str, parts: list[_Part], legend: dict[str, str], unit: int) -> list[dict[str, Any]]:
    """The parts of one bar, each beginning where the one before ends, in `unit` bytes."""
    rows: list[dict[str, Any]] = []
    start = 0.0
    for part in parts:
        end = start + part.amount / unit
        more, less = part.spread or (0, 0)
        rows.append(
            {
                "arm": arm,
                "part": legend[part.name],
                "digit": legend[part.name].partition(" ")[0],
                "start": start,
                "end": end,
                "middle": (start + end) / 2,
                "least": max(0.0, start - more / unit) if part.spread else None,
                "most": min(end, start + less / unit) if part.spread else None,
            }
        )
        start = end
    return rows


def _ledger_text(plans: list[Plan], *, ranged: bool) -> str:
    places = " and ".join(dict.fromkeys(planned.place(plan) for plan in plans))
    text = f"One bar per arm: what takes memory of {places}, line by line of the ledger."
    if ranged:
        text += " The line below a bar is where the pool may begin, as far as the estimates before it reach."
    left_out = dict.fromkeys(
        f"{words.label(line.name)} ({planned.between(line)})" for plan in plans for line in plan.ledger if _wide(line)
    )
    return f"{text} Estimated too widely to be drawn: {', '.join(left_out)}." if left_out else text


def _wide(line: LedgerLine) -> bool:
    """A guess beside the pool that says little more than an order of magnitude."""
    return line.kind == "estimated" and line.low > 0 and line.high > _WIDE * line.low


def _parts(lines: tuple[LedgerLine, ...]) -> list[_Part]:
    """What takes memory: lines taken away before the pool, lines that fill it, and what is left of it."""
    pool = next((index for index, line in enumerate(lines) if line.name == "pool"), None)
    if pool is None and any(line.bytes < 0 for line in lines):
        return []  # an unfinished ledger: what remains is not known
    before = [line for line in lines[:pool] if line.bytes < 0] if pool is not None else []
    after = lines[0 if pool is None else pool + 1 :]
    filling = [line for line in after if line.bytes > 0 and not _wide(line)]
    parts = [_Part(words.label(line.name), abs(line.bytes)) for line in [*before, *filling]]
    if pool is not None:
        left = lines[pool].bytes - sum(line.bytes for line in filling)
        parts += [_Part("left of the pool" if filling else "pool", left)] if left > 0 else []
    return _spread(parts, len(before), lines[pool]) if pool is not None else parts


def _spread(parts: list[_Part], at: int, pool: LedgerLine) -> list[_Part]:
    """The first part of the pool with the range of the pool, when that is an estimate."""
    if pool.low == pool.high or at >= len(parts):
        return parts
    spread = (pool.high - pool.bytes, pool.bytes - pool.low)
    return [part._replace(spread=spread) if index == at else part for index, part in enumerate(parts)]


def dtypes(record: Record) -> Drawing | None:
    """Tokens that the pool would hold with each cache dtype."""
    arms = record.ab.arms if record.ab else {}
    if not arms:
        return None
    first = min(arms)
    plan = arms[first].plan
    used = {arms[arm].plan.kv.dtype: arm for arm in sorted(arms, reverse=True)}
    rows = [
        {
            "dtype": words.plain(line.kv_dtype),
            "tokens": line.tokens,
            "arm": arm_name(record, used[line.kv_dtype]) if line.kv_dtype in used else "not used",
            "text": _held(line),
        }
        for line in plan.alternatives
        if line.tokens is not None
    ]
    if not rows:
        return None
    pool = f" of {size(plan.capacity.pool_bytes)}" if plan.capacity else ""
    base = alt.Chart(data(rows)).encode(
        y=alt.Y("dtype:N", title=None, sort=None, axis=alt.Axis(ticks=False, domain=False)),
        x=alt.X(
            "tokens:Q",
            title=f"tokens in the pool{pool} ({planned.of_alternatives(plan)})",
            axis=alt.Axis(format=",d", tickCount=5),
        ),
    )
    names = [*(arm_name(record, arm) for arm in sorted(arms)), "not used"]
    colours = [ARM_A if arm == "a" else ARM_B for arm in sorted(arms)]
    scale = alt.Scale(domain=names, range=[*colours, BAND])
    bars = base.mark_bar(size=18).encode(color=alt.Color("arm:N", scale=scale, legend=alt.Legend(symbolType="square")))
    labels = base.mark_text(align="left", dx=6).encode(text="text:N")
    return Drawing(
        name="dtypes",
        title="Tokens by cache dtype",
        text=f"Tokens that the pool of {arm_name(record, first)} would hold with each cache dtype.",
        chart=alt.layer(bars, labels).properties(width=WIDTH - 180, height=26 * len(rows)),
    )


def _held(line: Alternative) -> str:
    requests = "" if line.max_concurrency is None else f", {line.max_concurrency:,.2f} requests"
    return f"{line.tokens:,} tokens{requests}"
