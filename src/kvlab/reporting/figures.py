"""The numbers of the quality gate, the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvlab.core.gate import Figure, GateRule, LengthRow
from kvlab.core.interval import Interval

_POINTS = ("share", "points")
_SHOWN = 1200


def one(value: float, unit: str, *, signed: bool = False) -> str:
    """A number without its unit: shares in percent, nats and ratios to the digits that tell something."""
    sign = "+" if signed else ""
    if unit in _POINTS:
        text = f"{value * 100:{sign}.1f}"
    elif unit == "ratio":
        text = f"{value:{sign}.3f}"
    else:
        text = f"{value:{sign}.2g}" if abs(value) < 10 else f"{value:{sign},.4g}"
    return text.lstrip("+-") if text.strip("+-0.") == "" else text


def interval(value: Interval | None, unit: str, *, signed: bool = False) -> str:
    """A number with its interval and unit: "1.2 % (0.4 to 2.9)"; empty when there is none."""
    if value is None:
        return ""
    middle, low, high = (one(number, unit, signed=signed) for number in (value.value, value.low, value.high))
    return f"{middle}{_unit(unit, signed)} ({low} to {high})"


def difference(figure: Figure) -> str:
    """B less A with its interval; empty when there is none."""
    return interval(figure.difference, figure.unit, signed=True)


def allowed(figure: Figure) -> str:
    """The threshold of a number that can fail the part; empty for one that decides nothing."""
    if figure.allowed is None:
        return ""
    return f"{one(figure.allowed, figure.unit, signed=True)}{_unit(figure.unit, True)}"


def names(rows: Sequence[LengthRow]) -> tuple[str, ...]:
    """Names of the numbers that rows by length hold, in their order."""
    return tuple(dict.fromkeys(figure.name for row in rows for figure in row.figures))


def lengths(row: LengthRow) -> str:
    """The context lengths of a row: "128-511"."""
    return f"{row.low:,}-{row.high - 1:,}" if row.high - 1 > row.low else f"{row.low:,}"


def cells(row: LengthRow, rows: Sequence[LengthRow]) -> Iterator[tuple[str, str]]:
    """Each number of `names` with A's value and B's ("0.01 / 0.34 nats"); empty where the row lacks it."""
    held = {figure.name: figure for figure in row.figures}
    for name in names(rows):
        yield name, pair(held[name]) if name in held else ""


def pair(figure: Figure) -> str:
    """A's number and B's; one that is not there is a dash."""
    sides = ("-" if side is None else one(side.value, figure.unit) for side in (figure.a, figure.b))
    return " / ".join(sides) + _unit(figure.unit, False)


def rule(value: GateRule) -> Iterator[tuple[str, str]]:
    """Every threshold by name."""
    for name in value.__struct_fields__:
        yield name, f"{getattr(value, name):g}"


def shortened(text: str) -> str:
    """A text of an example, cut where nobody reads on."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ... {len(text) - _SHOWN:,} more characters"


def _unit(unit: str, signed: bool) -> str:
    if unit in _POINTS:
        return " points" if signed or unit == "points" else " %"
    return {"nats": " nats", "tokens": " tokens"}.get(unit, "")
