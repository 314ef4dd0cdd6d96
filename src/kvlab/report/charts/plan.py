"""Charts of the plan: where the memory goes, and what each cache dtype would hold."""

from __future__ import annotations

from typing import Any

import altair as alt

from kvlab.core.plan import Alternative, LedgerLine
from kvlab.core.record import Record
from kvlab.core.units import GIB, MIB, size
from kvlab.report import words
from kvlab.report.charts.drawing import ARM_A, ARM_B, BAND, PAGE, SERIES, WIDTH, Drawing, arm_name, data


def ledger(record: Record) -> Drawing | None:
    """The ledger of each arm as one bar: what is taken from the memory, and the pool that remains."""
    arms = record.ab.arms if record.ab else {}
    rows: list[dict[str, Any]] = []
    for arm in sorted(arms):
        rows += _parts(arm_name(record, arm), arms[arm].plan.ledger)
    if not rows:
        return None
    names = list(dict.fromkeys(row["part"] for row in rows))
    colours = [
        ARM_A if name.endswith(" pool") else SERIES[1 + index % (len(SERIES) - 1)] for index, name in enumerate(names)
    ]
    whole = max(row["end"] for row in rows)
    unit, unit_name = (GIB, "GiB") if whole >= 4 * GIB else (MIB, "MiB")
    for row in rows:
        row.update(start=row["start"] / unit, end=row["end"] / unit, middle=(row["start"] + row["end"]) / 2 / unit)
    base = alt.Chart(data(rows)).encode(y=alt.Y("arm:N", title=None, axis=alt.Axis(ticks=False, domain=False)))
    bars = base.mark_bar(size=34, stroke=PAGE, strokeWidth=1.5).encode(
        x=alt.X("start:Q", title=unit_name, scale=alt.Scale(domain=[0, whole / unit], nice=False)),
        x2="end:Q",
        color=alt.Color(
            "part:N",
            sort=names,
            scale=alt.Scale(domain=names, range=colours),
            legend=alt.Legend(columns=3, symbolType="square"),
        ),
    )
    wide = base.transform_filter(f"datum.end - datum.start > {whole / unit / 30}")
    digits = wide.mark_text(color=PAGE, fontWeight="bold").encode(x="middle:Q", text="digit:N")
    return Drawing(
        name="ledger",
        title="Where the memory goes",
        text="One bar per arm: what is taken from the memory of one GPU rank, and the pool that remains.",
        chart=alt.layer(bars, digits).properties(width=WIDTH - 90, height=48 * len({row["arm"] for row in rows})),
    )


def _parts(arm: str, lines: tuple[LedgerLine, ...]) -> list[dict[str, Any]]:
    """Negative lines in order, then the pool; a ledger without a pool has no bar."""
    pool = next((line for line in lines if line.name == "pool"), None)
    if pool is None or pool.bytes <= 0:
        return []
    taken = [line for line in lines[: lines.index(pool)] if line.bytes < 0]
    rows: list[dict[str, Any]] = []
    start = 0
    for index, line in enumerate([*taken, pool], 1):
        end = start + abs(line.bytes)
        rows.append(
            {"arm": arm, "part": f"{index} {words.label(line.name)}", "digit": str(index), "start": start, "end": end}
        )
        start = end
    return rows


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
