"""Another context than the planned one, and the rows that differ as it makes them."""

from __future__ import annotations

from typing import NamedTuple

from kvlab.core.check import CheckRow
from kvlab.core.plan import Plan

_CELLS = 256
"""llama.cpp rounds its cells up to this many."""


class OtherContext(NamedTuple):
    """The server's context, where it is not the planned one."""

    reason: str
    explains: frozenset[str]
    """Names of the rows that differ as this context makes them."""
    remark: str
    """How many of all rows that is, and what to change."""


def other_context(plan: Plan, rows: tuple[CheckRow, ...]) -> OtherContext | None:
    """What the context explains of the planned rows; None when it is the planned one, or is not stated."""
    cause = next((row for row in rows if row.name == "n_ctx" and row.verdict == "differs"), None)
    if cause is None or not isinstance(cause.planned, int | float) or not isinstance(cause.seen, int | float):
        return None
    planned, seen = cause.planned, cause.seen
    # An engine may have more than one name for it; the last is the one of the model (Ollama's num_ctx).
    flags = [flag.flag for flag in plan.launch.flags if flag.value == f"{planned:.0f}"]
    setting = flags[-1] if flags else "the context"
    expected = {item.name for item in plan.expects}
    differing = [row for row in rows if row.verdict == "differs" and row.name in expected]
    ours = frozenset(row.name for row in differing if _follows(row, seen / planned))
    reason = f"the server runs with {setting} {seen:.0f}, not {planned:.0f}"
    if len(ours) < len(differing):
        return OtherContext(
            reason, ours, f"{reason}: that explains {len(ours)} of the {len(differing)} rows that differ"
        )
    what = f"that one setting explains all {len(ours)} rows that differ" if len(ours) > 1 else "nothing else differs"
    change = f"start it with {planned:.0f}, or plan with --context {seen:.0f}"
    return OtherContext(reason, ours, f"{reason}: {what}; {change}")


def _follows(row: CheckRow, ratio: float) -> bool:
    """Whether a row differs as another context makes it: by the same ratio, or as far as padding and windows let it."""
    if row.name.endswith(("_layers", "_type")) or row.name == "slots":
        return False
    if not isinstance(row.planned, int | float) or not isinstance(row.seen, int | float) or not row.planned:
        return False
    got, room = row.seen / row.planned, (row.tolerance or 0) / row.planned
    if row.name.endswith("_cells"):
        room += _CELLS / row.planned
    least, most = (ratio, 1.0) if ratio < 1 else (1.0, ratio)
    windowed = row.name.startswith("kv_window")
    return least - room <= got <= most + room if windowed else abs(got - ratio) <= room + 1e-6
