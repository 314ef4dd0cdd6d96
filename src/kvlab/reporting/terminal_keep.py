"""What is kept, on a terminal: what was frozen, and what a verify found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from kvlab.core.performance import PRIMARY
from kvlab.core.plan_lines import Difference
from kvlab.reporting import words
from kvlab.reporting.terminal import comparison
from kvlab.reporting.terminal_parts import bullets, facts, heading, left, right, table, verdict_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvlab.frozenfiles import Freeze
    from kvlab.timeline import Entry, History
    from kvlab.verifying import Verify


def freeze(value: Freeze, folder: Path) -> RenderableType:
    """The files, the main numbers, and what differs from the lock that was there."""
    lock = value.lock
    arm = "" if lock.arm is None else f" (arm {lock.arm.upper()})"
    head = verdict_line("", "Frozen", f"{words.plain(lock.model.name)} on {lock.engine.name}{arm} in {folder}")
    rows = [
        ("engine", f"{lock.engine.name} {lock.engine.version or '(version not stated)'}"),
        ("plan", f"{lock.plan.digest[:16]}, tokens: {words.number(_number(lock.plan.lines.get('capacity tokens')))}"),
        ("measured", lock.measured or "not measured: a plan alone"),
        ("runs", f"{len(lock.runs)}"),
        ("files", ", ".join(os.path.basename(name) for name in value.files)),
    ]
    if lock.left_out:
        rows.append(("without their path", ", ".join(lock.left_out)))
    parts: list[RenderableType] = [head, facts(rows)]
    if value.replaced:
        parts += [heading("Changed against the lock that was there"), differences(value.changed)]
    return Group(*parts)


_HEADS = {"no_regression": "No regression", "regression": "Regression", "inconclusive": "Inconclusive"}
_COLOURS = {"no_regression": "agrees", "regression": "worse"}


def verify(value: Verify) -> RenderableType:
    """The verdict with its reasons, what changed since it was frozen, and the numbers beside the frozen ones."""
    verdict = value.verdict
    parts: list[RenderableType] = [
        verdict_line(_COLOURS.get(verdict.code, ""), _HEADS[verdict.code], words.plain(verdict.text)),
        bullets(words.plain(reason) for reason in verdict.because),
        heading("Changed since it was frozen"),
        differences(value.changed),
        heading("Lines of the plan that changed"),
        differences(value.plan_changed),
    ]
    if value.performance:
        parts += [heading("Frozen (A) against now (B), measured"), comparison(value.performance)]
    if value.engine_said:
        parts += [heading("Said by the engine's metrics (read, means over the runs)"), differences(value.engine_said)]
    agreed = sum(row.verdict == "agrees" for row in value.check.rows)
    parts += [
        Text(
            f"\nlog against plan: {agreed} of {len(value.check.rows)} agree (read); {words.counted(value.runs, 'run')}"
        )
    ]
    return Group(*parts)


def _number(value: float | str | None) -> float | None:
    return None if isinstance(value, str) else value


def differences(changed: Sequence[Difference]) -> RenderableType:
    """Named facts, before and after."""
    if not changed:
        return Text("nothing")
    body = table(left("what"), left("was"), left("is"))
    for one in changed:
        body.add_row(Text(words.plain(one.name)), Text(_value(one.before)), Text(_value(one.after)))
    return body


def _value(value: float | str | None) -> str:
    if value is None:
        return "absent"
    return words.plain(value) if isinstance(value, str) else words.number(value)


_BAR = 14


def history(value: History) -> RenderableType:
    """One line an entry, the oldest first, with the main metrics."""
    if not value.entries:
        return Text(f"Nothing of kvlab in {', '.join(value.folders)}: no lab, result, kvlab.lock or verify")
    body = table(
        *(left("when"), left("what"), left("where"), left("engine"), left("arm")),
        *(right(words.metric_with_unit(name, "ms" if name.endswith("_ms") else "")) for name in PRIMARY),
        left("verdict"),
    )
    for entry in value.entries:
        cells = (words.number(entry.metrics[name]) if name in entry.metrics else "" for name in PRIMARY)
        body.add_row(
            *(Text(text) for text in (*_row(entry), words.plain(entry.label))),
            *(Text(cell) for cell in cells),
            Text(words.plain(entry.verdict or "").replace("_", " ")),
        )
    tail = [f"{words.plain(one.path)}: {words.plain(one.reason)}" for one in value.left_out]
    below: list[RenderableType] = [heading("Not read"), bullets(tail)] if tail else []
    return Group(body, *below)


def plotted(entries: Sequence[Entry], metric: str) -> RenderableType:
    """One metric over time as bars from zero, the numbers beside them."""
    most = max(entry.metrics[metric] for entry in entries) or 1
    title = words.metric_with_unit(metric, "ms" if metric.endswith("_ms") else "")
    body = table(left("when", wraps=False), left("where"), left("engine"), right(title), left(""))
    for entry in entries:
        value, (when, _, path, engine) = entry.metrics[metric], _row(entry)
        cells = (
            when[:16].replace("T", " "),
            path,
            engine,
            words.number(value),
            "#" * max(1, round(_BAR * value / most)),
        )
        body.add_row(*map(Text, cells))
    return body


def _row(entry: Entry) -> tuple[str, str, str, str]:
    engine = " ".join(filter(None, (entry.engine, entry.version)))
    return words.plain(entry.time or "no time")[:19], entry.kind, words.plain(entry.path), words.plain(engine)
