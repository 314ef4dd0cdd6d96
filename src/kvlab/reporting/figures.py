"""The numbers of the quality gate, the same on a terminal and on a page."""

from __future__ import annotations

from kvlab.core.gate import Figure
from kvlab.core.interval import Interval

_POINTS = ("share", "points")


def one(value: float, unit: str, *, signed: bool = False) -> str:
    """A number without its unit: shares in percent, nats and ratios to three digits."""
    sign = "+" if signed else ""
    if unit in _POINTS:
        text = f"{value * 100:{sign}.1f}"
    elif unit == "nats":
        text = f"{value:{sign}.2g}" if abs(value) < 0.0995 else f"{value:{sign}.3f}"
    else:
        text = f"{value:{sign}.4g}"
    return text.lstrip("+-") if float(text) == 0 else text


def interval(value: Interval | None, unit: str, *, signed: bool = False) -> str:
    """A number with its interval and unit: "1.2 % (0.4 to 2.9)"; empty when there is none."""
    if value is None:
        return ""
    middle, low, high = (one(number, unit, signed=signed) for number in (value.value, value.low, value.high))
    name = _unit(unit, signed)
    return f"{middle}{name} ({low} to {high})"


def allowed(figure: Figure) -> str:
    """The threshold of a number that can fail the part; empty for one that decides nothing."""
    if figure.allowed is None:
        return ""
    return f"{one(figure.allowed, figure.unit, signed=True)}{_unit(figure.unit, True)}"


def pair(figure: Figure) -> str:
    """A's number and B's: "0.01 / 0.34"."""
    sides = ("" if side is None else one(side.value, figure.unit) for side in (figure.a, figure.b))
    return " / ".join(sides) + _unit(figure.unit, False)


def _unit(unit: str, signed: bool) -> str:
    if unit in _POINTS:
        return " points" if signed or unit == "points" else " %"
    return {"nats": " nats", "tokens": " tokens"}.get(unit, "")
