"""The Prometheus text format, as engines serve it on /metrics.

Source of the grammar: https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4). OpenMetrics
exemplars and its "# EOF" are read as comments.
"""

from __future__ import annotations

import re

import msgspec

from kvlab.core.errors import BadInput, shortened

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|(?=\}))')
_END = re.compile(r"\s*\}")
# C++ servers write a not-a-number as "nan", "-nan" or "-nan(ind)".
_NUMBER = r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf|nan(?:\(\w*\))?)"
# A timestamp or an exemplar may follow the value.
_VALUE = re.compile(rf"[ \t]+({_NUMBER})(?:[ \t]+-?[\d.]+)?\s*(?:#.*)?$", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)")


class Sample(msgspec.Struct, frozen=True):
    """One time series at one moment. A counter's name keeps its `_total`."""

    name: str
    labels: dict[str, str]
    value: float


def samples(text: str) -> list[Sample]:
    """Every sample of `text`, in order. Raises BadInput as `rows` does."""
    return [sample for _, sample in rows(text)]


def rows(text: str) -> list[tuple[str, Sample]]:
    """Every sample of `text`, in order, with the line that states it.

    Raises BadInput naming the first line that is not in the format, or when there is no sample at all; also for a page
    that was cut: the format wants a line feed after the last line, and half a number reads as a whole one. OpenMetrics'
    "# EOF" ends a page without one.
    """
    found = [
        (line.strip(), _sample(line, number))
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not found:
        raise BadInput("the metrics text holds no samples; is this the engine's /metrics page?")
    if text.rpartition("\n")[2].strip() not in ("", "# EOF"):
        raise BadInput("the page ends in the middle of a line: save it whole, with the line feed after its last line")
    return found


def _sample(line: str, number: int) -> Sample:
    start = _NAME.match(line.lstrip())
    if start is None:
        raise _bad(line, number)
    rest = line.lstrip()[start.end() :]
    labels: dict[str, str] = {}
    if rest.lstrip().startswith("{"):
        rest = _labels(rest.lstrip()[1:], labels, line, number)
    value = _VALUE.match(rest)
    if value is None:
        raise _bad(line, number)
    return Sample(start.group(), labels, _number(value.group(1)))


def _labels(rest: str, labels: dict[str, str], line: str, number: int) -> str:
    while not (end := _END.match(rest)):
        pair = _LABEL.match(rest)
        if pair is None:
            raise _bad(line, number)
        labels[pair.group(1)] = _ESCAPE.sub(lambda escape: {"n": "\n"}.get(escape[1], escape[1]), pair.group(2))
        rest = rest[pair.end() :]
    return rest[end.end() :]


def _number(text: str) -> float:
    return float("nan") if "nan" in text.lower() else float(text)


def _bad(line: str, number: int) -> BadInput:
    shown = shortened(line.strip())
    return BadInput(f"line {number} is not Prometheus text: {shown!r}; give the body of the engine's /metrics page")
