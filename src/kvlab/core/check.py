"""Plan against observation, name by name: agrees, differs, or not seen."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvlab.core.calibration import Start
from kvlab.core.errors import BadInput
from kvlab.core.observation import Observation
from kvlab.core.plan import EngineId, Expected, Plan


class CheckRow(msgspec.Struct, frozen=True, kw_only=True):
    """One planned quantity, or word, beside what the engine said. `difference` is seen minus planned, in `unit`.

    `low` and `high` bound a planned estimate.
    """

    name: str
    unit: str
    planned: float | str | None
    seen: float | str | None
    verdict: Literal["agrees", "differs", "not seen", "not planned"]
    difference: float | None = None
    tolerance: float | None = None
    line: str | None = None
    line_number: int | None = None
    likely_because: str | None = None
    low: float | None = None
    high: float | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """All rows of one comparison. Without a plan: what the log says, with `planned` None."""

    schema: Literal["kvlab/check@1"] = "kvlab/check@1"
    engine: EngineId
    rows: tuple[CheckRow, ...]
    learned: Start | None = None
    """What --learn wrote to the calibration file."""

    @property
    def agrees(self) -> bool:
        """Whether nothing differs and a size of the cache was confirmed: slots alone say nothing about its dtype."""
        return self.confirmed and all(row.verdict != "differs" for row in self.rows)

    @property
    def confirmed(self) -> bool:
        """Whether a row about the cache's size agrees."""
        return any(row.verdict == "agrees" and _is_size(row.name) for row in self.rows)


def _is_size(name: str) -> bool:
    """Bytes or tokens of the cache, or of the request that did not fit into it; cells and layers are no size."""
    return name == "kv_tokens" or (name.startswith("kv_") and name.endswith("_bytes")) or name == "request_bytes"


def compare(plan: Plan, observation: Observation) -> Check:
    """Every quantity that the plan expects, against the last line of that name in the log.

    Raises BadInput for what another engine than the planned one said.
    """
    if observation.engine != plan.engine.name:
        raise BadInput(
            f"the plan is for {plan.engine.name}, the log or server is {observation.engine}'s; check it against a plan"
            f" for {observation.engine}, or leave --engine out"
        )
    rows = tuple(row(expected, observation) for expected in plan.expects)
    version = observation.version or plan.engine.version
    return Check(engine=EngineId(observation.engine, version), rows=rows)


def listing(observation: Observation) -> Check:
    """What the log says, under the names that a plan would use: the last statement of each."""
    last = {item.name: item for item in observation.seen}
    rows = tuple(
        CheckRow(
            name=name,
            unit=item.unit,
            planned=None,
            seen=item.value,
            verdict="not planned",
            line=item.line,
            line_number=item.line_number,
        )
        for name, item in last.items()
    )
    return Check(engine=EngineId(observation.engine, observation.version or "unknown"), rows=rows)


def row(expected: Expected, observation: Observation) -> CheckRow:
    """One planned quantity beside the last statement of that name in the log."""
    seen = observation.get(expected.name)
    absent = CheckRow(
        name=expected.name,
        unit=expected.unit,
        planned=expected.value,
        seen=None,
        verdict="not seen",
        tolerance=expected.tolerance,
        likely_because="it is never stated",
        low=expected.low,
        high=expected.high,
    )
    if seen is None or isinstance(seen.value, str) != isinstance(expected.value, str):
        return absent
    difference, agrees = _beside(expected, seen.value)
    return msgspec.structs.replace(
        absent,
        seen=seen.value,
        verdict="agrees" if agrees else "differs",
        difference=difference,
        line=seen.line,
        line_number=seen.line_number,
        likely_because=None if agrees else f"planned because {expected.because}",
    )


def _beside(expected: Expected, seen: float | str) -> tuple[float | None, bool]:
    """Seen minus planned (None for words), and whether the two agree."""
    planned = expected.value
    if isinstance(seen, str) or isinstance(planned, str):
        return None, seen == planned or seen in expected.also
    difference = seen - planned
    if expected.low is None or expected.high is None:
        return difference, abs(difference) <= expected.tolerance
    # The tolerance covers the farther end of the range and the rounding of the printed number.
    rounding = max(0.0, expected.tolerance - max(expected.high - planned, planned - expected.low))
    return difference, expected.low - rounding <= seen <= expected.high + rounding
