"""Plan against observation, name by name: agrees, differs, or not seen."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvlab.core.calibration import Start
from kvlab.core.errors import BadInput
from kvlab.core.observation import Observation, Seen
from kvlab.core.plan import EngineId, Expected, Plan
from kvlab.core.units import GIB, HALF_DIGIT, MIB

_OWN_WEIGHTS = (0.95, 1.15)
"""What an engine says its weights took, as parts of the tensors' bytes: it pads, converts and repacks some."""
_BUFFERS = (0.9, 2.0)
"""The same of llama.cpp's buffers: tensors that are not used are not loaded, repacked and tied ones stand twice."""
_REFUSALS = ("request_bytes", "longest_request_tokens")
"""Numbers that an engine states only where it refuses to start."""
_OF_SERVER = "the running server's pages do not state it; check its log too: kvlab check LOG (or -) --plan FILE"
_SINGLE = 2.0**-24
"""llama.cpp divides sizes as single-precision floats before it prints them."""

Certainty = Literal["exact", "stated", "possible"]
"""Its arithmetic gives what the log prints, to the digit; a line states it; nothing speaks against it."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of differences. `explains` names the rows that it accounts for."""

    code: str
    text: str
    certainty: Certainty
    explains: tuple[str, ...] = ()
    setting: bool = False
    """Whether it is a stated setting that differs, and was not tried: then it explains nothing for sure."""


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
    follows_from: tuple[str, ...] = ()
    """Lines of the ledger, or of the cost of a token, that a difference follows from: the nearest first."""
    causes: tuple[Reason, ...] = ()
    """What may explain a difference, the surest first."""

    @property
    def ranged(self) -> bool:
        """Whether an estimate was planned: what agrees with it lies within its range, and is no exact match."""
        return self.low is not None and self.high is not None and self.low < self.high


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """All rows of one comparison. Without a plan: what the log says, with `planned` None."""

    schema: Literal["kvlab/check@1"] = "kvlab/check@1"
    engine: EngineId
    rows: tuple[CheckRow, ...]
    learned: Start | None = None
    """What --learn wrote to the calibration file."""
    remarks: tuple[str, ...] = ()
    """What holds for several rows, or for none: one setting that explains them, what was not compared."""
    causes: tuple[Reason, ...] = ()
    """Those of all rows, the surest first."""
    server: bool = False
    """Whether pages of a running server were compared, and no log."""
    refused: str | None = None
    """The line in which the engine refuses to start; None when it does not, or started after that."""

    @property
    def agrees(self) -> bool:
        """Whether nothing differs and a size of the cache was confirmed: slots alone say nothing about its dtype."""
        return self.confirmed and all(row.verdict != "differs" for row in self.rows)

    @property
    def confirmed(self) -> bool:
        """Whether a row about the cache's size agrees."""
        return any(row.verdict == "agrees" and _is_size(row.name) for row in self.rows)

    @property
    def exact(self) -> int:
        """Rows that agree to the last printed digit."""
        return sum(row.verdict == "agrees" and not row.ranged for row in self.rows)

    @property
    def within(self) -> int:
        """Rows that agree because they lie within the range of an estimate."""
        return sum(row.verdict == "agrees" and row.ranged for row in self.rows)


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
    weights, remarks = _weights(plan, observation)
    version = observation.version or plan.engine.version
    return Check(
        engine=EngineId(observation.engine, version),
        rows=(*(row(expected, observation) for expected in plan.expects), *weights),
        server=observation.server,
        remarks=remarks,
        refused=_refused(observation),
    )


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
    return Check(
        engine=EngineId(observation.engine, observation.version or "unknown"),
        rows=rows,
        server=observation.server,
        refused=_refused(observation),
    )


def _refused(observation: Observation) -> str | None:
    """The last refusal, unless the engine sized its cache after it."""
    lines = [seen for seen in observation.seen if seen.name in _REFUSALS]
    started = observation.get("kv_tokens")
    if not lines or (started is not None and (started.line_number or 0) > (lines[-1].line_number or 0)):
        return None
    return lines[-1].line


def _weights(plan: Plan, observation: Observation) -> tuple[tuple[CheckRow, ...], tuple[str, ...]]:
    """The weights that the log states beside those of the plan's ledger; a remark when there is only one of them."""
    said = [seen for name in _WEIGHTS if (seen := observation.get(name)) and not isinstance(seen.value, str)]
    line = next((line for line in plan.ledger if line.name == "weights"), None)
    if line is None:
        text = "weights: not compared, since the plan has no budget; plan with --gpu NAME (or --gpu cpu)"
        return (), (text,) if said else ()
    whole = (plan.ask.tp or 1) * plan.ask.pp == 1 and (plan.ask.gpus or 1) == 1
    said = [seen for seen in said if seen.name == "weights_bytes" or whole]
    if not said:
        return (), ("weights: not compared, since the engine does not state what it loaded",)
    sizes = -line.bytes, -max(line.low, line.high), -min(line.low, line.high)
    return tuple(row(_expected_weights(seen, sizes), observation) for seen in said), ()


def _expected_weights(seen: Seen, sizes: tuple[float, float, float]) -> Expected:
    """The plan's weights (bytes, low, high) as the statement `seen` should have them."""
    value, low, high = sizes
    parts, because = _WEIGHTS[seen.name]
    printed = (HALF_DIGIT * GIB if "GiB" in seen.line else HALF_DIGIT * MIB) + value * _SINGLE
    exact = Expected(name=seen.name, value=value, unit="bytes", kind="computed", tolerance=printed, because=because)
    if parts is None and low == high:
        return exact
    least, most = parts or (1.0, 1.0)
    low, high = low * least, high * most
    spread = max(value - low, high - value)
    return msgspec.structs.replace(exact, kind="estimated", tolerance=spread + printed, low=low, high=high)


_WEIGHTS: dict[str, tuple[tuple[float, float] | None, str]] = {
    "weights_file_bytes": (None, "the tensors of the file, by shape and type, are that large"),
    "weights_loaded_bytes": (_BUFFERS, "buffers hold the tensors, some of them twice or on another device"),
    "weights_bytes": (_OWN_WEIGHTS, "the tensors of one rank are that large, before padding and repacking"),
}
"""Names under which engines state their weights: the range about the tensors' bytes (None: exact), and why."""


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
        likely_because=_OF_SERVER if observation.server else "it is never stated",
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
