"""What AIPerf's and genai-perf's files have in common: an object of statistics for each metric, and the same as CSV.

Both take percentiles with linear interpolation and the standard deviation of the population, as vLLM does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kvlab.core.errors import BadInput, shortened
from kvlab.core.result import Document
from kvlab.readers._fields import number, present, section, spread

_STATISTICS = {"mean": "avg", "median": "p50", "std": "std"} | {
    f"p{n}": f"p{n}" for n in (1, 5, 10, 25, 75, 90, 95, 99)
}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0, "s": 1.0, "seconds": 1.0}
_NAMED = re.compile(r"(?P<name>.*?)\s*(?:\((?P<unit>[^()]*)\))?$")
_SPELLINGS = {"num_output_token": "output_sequence_length", "num_input_token": "input_sequence_length"}


def latency(document: Document, key: str, metric: str, path: Path) -> dict[str, float]:
    """A time's statistics in milliseconds under vLLM's names. Raises BadInput for a unit that is no time."""
    stats = section(document, key)
    if not stats:
        return {}
    unit = stats.get("unit")
    if unit not in _SECONDS:
        raise BadInput(f"{path}: {key} is in {shortened(repr(unit))}, and must be in ms, sec, us or ns")
    return spread(stats, metric, path, keys=_STATISTICS, scale=_SECONDS[str(unit)] * 1000)


def scalar(document: Document, key: str, path: Path, statistic: str = "avg") -> float | None:
    """One number of a metric; None when the file does not have it."""
    return number(section(document, key), statistic, path)


def throughput(document: Document, path: Path) -> dict[str, float]:
    """Counts and rates under vLLM's names.

    Both tools count answered requests only, and write the failed ones apart or not at all: then they are absent.
    """
    output = scalar(document, "total_osl", path)
    if output is None:
        output = scalar(document, "output_sequence_length", path, "sum")
    goodput = scalar(document, "goodput", path)
    duration = section(document, "benchmark_duration")
    scale = _SECONDS.get(str(duration.get("unit")), 1.0)
    seconds = number(duration, "avg", path)
    return present(
        {
            "duration": None if seconds is None else seconds * scale,
            "completed": scalar(document, "request_count", path),
            "failed": _failed(document, path),
            "total_input_tokens": scalar(document, "total_isl", path),
            "total_output_tokens": output,
            "request_throughput": scalar(document, "request_throughput", path),
            "request_goodput": scalar(document, "request_goodput", path) if goodput is None else goodput,
            "output_throughput": scalar(document, "output_token_throughput", path),
            "total_token_throughput": scalar(document, "total_token_throughput", path),
        }
    )


def _failed(document: Document, path: Path) -> float | None:
    stated = scalar(document, "error_request_count", path)
    if stated is not None:
        return stated
    ended, answered = scalar(document, "completed_request_count", path), scalar(document, "request_count", path)
    return None if ended is None or answered is None else ended - answered


def is_table(document: Document) -> bool:
    """Whether a CSV file begins as both tools' do: statistics by metric."""
    return _head(document)[:4] == ["Metric", "avg", "min", "max"]


def sums(document: Document) -> bool:
    """Whether such a table has sums beside the means: AIPerf writes them, genai-perf does not."""
    return "sum" in _head(document)


def _head(document: Document) -> Sequence[str]:
    blocks = document.get("csv")
    return blocks[0][0] if isinstance(blocks, list) and blocks else []


def from_table(document: Document, path: Path) -> Document:
    """The CSV file as the JSON file has it: statistics by metric, with units. Values are rounded there to 0.01.

    Numbers may have thousands separators; "N/A" is absent. Blocks about GPUs are left out.
    """
    found: dict[str, dict[str, object]] = {}
    blocks = document["csv"]
    assert isinstance(blocks, list)
    for block in blocks:
        head = block[0]
        if head[0] != "Metric" or "GPU" in head:
            continue
        names = ["avg"] if head[1:] == ["Value"] else head[1:]
        for row in block[1:]:
            name, unit = _name(row[0])
            found[name] = {"unit": unit} | _cells(dict(zip(names, row[1:], strict=False)), f"{path}: {row[0]}")
    return found


def _name(cell: str) -> tuple[str, str | None]:
    """ "Time to First Token (ms)" -> time_to_first_token, ms."""
    match = _NAMED.fullmatch(cell.strip())
    assert match is not None  # the pattern takes any text on one line
    name = re.sub(r"\W+", "_", match["name"].lower()).strip("_")
    long = {"total_input_sequence_length": "total_isl", "total_output_sequence_length": "total_osl"}
    return (_SPELLINGS | long).get(name, name), match["unit"]


def _cells(cells: Mapping[str, str], where: str) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, cell in cells.items():
        text = cell.strip().replace(",", "")
        if text in ("", "N/A", "nan"):
            continue
        try:
            values[name] = float(text)
        except ValueError:
            raise BadInput(
                f"{where}: {name} is {shortened(repr(cell))}, and must be a number; repeat the run"
            ) from None
    return values
