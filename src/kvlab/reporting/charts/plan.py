"""Charts of the plan: where the memory goes, and what each cache dtype would hold."""

from __future__ import annotations

from typing import Any

import altair as alt

from kvlab.core.plan import Alternative, LedgerLine
from kvlab.core.record import Record
from kvlab.core.units import GIB, MIB, size
from kvlab.reporting import words
from kvlab.reporting.charts.drawing import ARM_A, ARM_B, BAND, PAGE, SERIES, WIDTH, Drawing, arm_name, data


def ledger(record: Record) -> Drawing | None:
    """The ledger of each arm as one bar, numbered as in the legend."""
    arms = record.ab.arms if record.ab else {}
    parts = {arm_name(record, arm): _parts(arms[arm].plan.ledger) for arm in sorted(arms)}
    names = list(dict.fromkeys(name for lines in parts.values() for name, _ in lines))
    whole = max((sum(amount for _, amount in lines) for lines in parts.values()), default=0)
    if not whole:
        return None
    unit, unit_name = (GIB, "GiB") if whole >= 4 * GIB else (MIB, "MiB")
    legend = {name: f"{index} {name}" for index, name in enumerate(names, 1)}
    rows: list[dict[str, Any]] = []
    for arm, lines in parts.items():
        start = 0.0
        for name, amount in lines:
            end = start + amount / unit
            digit = str(names.index(name) + 1)
            rows.append(
                {
                    "arm": arm,
                    "part": legend[name],
                    "digit": digit,
                    "start": start,
                    "end": end,
                    "middle": (start + end) / 2,
                }
            )
            start = end
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
    return Drawing(
        name="ledger",
        title="Where the memory goes",
        text="One bar per arm: what takes memory on one GPU rank, line by line of the ledger.",
        chart=alt.layer(bars, digits).properties(width=WIDTH - 90, height=48 * len(parts)),
    )


def _parts(lines: tuple[LedgerLine, ...]) -> list[tuple[str, int]]:
    """What takes memory: lines taken away before the pool, lines that fill it, and what is left of it."""
    pool = next((index for index, line in enumerate(lines) if line.name == "pool"), None)
    if pool is None and any(line.bytes < 0 for line in lines):
        return []  # an unfinished ledger: what remains is not known
    before = [line for line in lines[:pool] if line.bytes < 0] if pool is not None else []
    filling = [line for line in lines[0 if pool is None else pool + 1 :] if line.bytes > 0]
    parts = [(words.label(line.name), abs(line.bytes)) for line in [*before, *filling]]
    if pool is not None:
        left = lines[pool].bytes - sum(line.bytes for line in filling)
        parts += [("left of the pool" if filling else "pool", left)] if left > 0 else []
    return parts


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
        x=alt.X("tokens:Q", title=f"tokens in the pool{pool} (computed)", axis=alt.Axis(format=",d", tickCount=5)),
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
