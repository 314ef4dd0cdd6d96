"""Writes docs/logs.md: what kvlab reads in the golden logs of each engine and version.

    python benchmarks/log_table.py

Each engine's folder in tests/golden has a logs.jsonl, in order of age: a log (or "lines.jsonl": single lines, each with
its version), the version that wrote it, whether it was recorded by somebody else or ran here, and its source. The
quantities are those that the engine's own reader finds in it now.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvlab import engines
from kvlab.core.observation import Seen

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
_CACHE = re.compile(r"kv_(?:full|window|state|indexer|pool\d+)_")
MARKS = {"ran here": "H", "recorded": "R", "imitation": "i"}
"""By how much they prove: where several logs of a version state a quantity, the first of these is shown."""


def index(engine: str) -> list[dict[str, Any]]:
    """The golden logs of an engine, the oldest first."""
    return [json.loads(line) for line in (folder(engine) / "logs.jsonl").read_text("utf-8").splitlines()]


def folder(engine: str) -> Path:
    """Where the golden logs of an engine are."""
    return GOLDEN / engine.replace("-", "_")


def texts(engine: str, row: dict[str, Any]) -> Iterator[str]:
    """The logs that a row of the index names."""
    path = folder(engine) / row["file"]
    if row["file"] == "lines.jsonl":
        for line in map(json.loads, path.read_text("utf-8").splitlines()):
            if line["version"] == row["version"]:
                yield line["line"]
    else:
        for file in sorted(path.glob("*.log")) if path.is_dir() else (path,):
            yield file.read_text("utf-8", errors="replace")


def stated(engine: str, row: dict[str, Any]) -> list[Seen]:
    """What the engine's reader finds in the logs of a row."""
    reader = engines.log_reader(engine)
    return [item for text in texts(engine, row) for item in reader.read(text.splitlines(keepends=True)).seen]


def table(engine: str) -> list[str]:
    """Quantities x versions, with the mark of the best evidence in each cell."""
    rows = index(engine)
    versions = list(dict.fromkeys(row["version"] for row in rows))
    cells: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        for item in stated(engine, row):
            cells.setdefault(item.name, {}).setdefault(row["version"], set()).add(row["from"])
    named: dict[tuple[str, str], list[str]] = {}
    for name in sorted(cells):
        marks = " | ".join(_mark(cells[name].get(version, set())) for version in versions)
        cache = _CACHE.match(name)
        named.setdefault((cache.group(0) if cache else name, marks), []).append(name)
    lines = [f"| quantity | {' | '.join(versions)} |", f"| --- |{' :-: |' * len(versions)}"]
    return lines + [f"| {_short(first, names)} | {marks} |" for (first, marks), names in named.items()]


def _short(first: str, names: list[str]) -> str:
    """The parts of one cache, seen in the same versions, on one line: kv_full_{bytes, cells}."""
    return names[0] if len(names) == 1 else f"{first}{{{', '.join(name.removeprefix(first) for name in names)}}}"


def _mark(found: set[str]) -> str:
    return next((mark for name, mark in MARKS.items() if name in found), "")


def files(engine: str) -> list[str]:
    """Where the evidence is, and where it is from."""
    lines = ["| version | golden log | from | source |", "| --- | --- | --- | --- |"]
    for row in index(engine):
        path = (folder(engine) / row["file"]).resolve().relative_to(GOLDEN).as_posix()
        lines.append(f"| {row['version']} | {path} | {row['from']} | {row['source']} |")
    return lines


def document() -> str:
    """The page as Markdown."""
    lines = [
        "# What is read in the logs of each engine and version",
        "",
        "<!-- written by benchmarks/log_table.py; a test holds it to the golden logs -->",
        "",
        "R: read in a log that somebody else recorded. H: in a log of an engine that ran here. i: in an imitation, the",
        "message as that release writes it. Empty: no golden log of that version states it; the version itself may.",
        "A date stands for a version that the log does not name. Golden logs are under `tests/golden`, where",
        "`logs.jsonl` in each engine's folder says what a person reads in each; `tests/engines/test_golden_logs.py`",
        "compares.",
    ]
    for engine in engines.names():
        lines += ["", f"## {engines.engine(engine).title}", "", *table(engine), "", *files(engine)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "logs.md").write_text(document(), encoding="utf-8")
    print("docs/logs.md written")
