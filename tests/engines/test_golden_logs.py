"""Every golden log is read as a person reads it; logs.jsonl in each engine's folder states what that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvlab import engines
from kvlab.core.observation import Observation
from kvlab.observe import read_log

GOLDEN = Path(__file__).parents[1] / "golden"
UNITS = {"B": 1, "MB": 2**20, "MiB": 2**20, "GB": 2**30, "GiB": 2**30}
"""As the engines print them: none of their sizes is decimal."""


def index(engine: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / engine / "logs.jsonl").read_text().splitlines()]


def folders() -> list[str]:
    return [name.replace("-", "_") for name in engines.names()]


STATED = [(engine, row) for engine in folders() for row in index(engine) if "says" in row]


def said(observation: Observation) -> dict[str, float | str]:
    """The last statement of each quantity."""
    last: dict[str, float | str] = {item.name: item.value for item in observation.seen}
    return last if observation.version is None else {**last, "version": observation.version}


def in_bytes(value: float | str) -> Any:
    """ "4.58 GiB" as bytes; other words and numbers as they are."""
    number, _, unit = value.partition(" ") if isinstance(value, str) else ("", "", "")
    return pytest.approx(float(number) * UNITS[unit], abs=0.01) if unit in UNITS else value


@pytest.mark.parametrize(("engine", "row"), STATED, ids=[f"{engine}-{row['file']}" for engine, row in STATED])
def test_a_recorded_log_is_read_as_a_person_reads_it(engine: str, row: dict[str, Any]) -> None:
    found = read_log(str(GOLDEN / engine / row["file"]), engine.replace("_", "-"))
    assert said(found) == {name: in_bytes(value) for name, value in row["says"].items()}
    for item in found.seen:
        assert item.line_number is not None


@pytest.mark.parametrize("engine", folders())
def test_the_index_names_every_log_and_every_version(engine: str) -> None:
    rows = index(engine)
    assert {row["from"] for row in rows} <= {"recorded", "ran here", "imitation"}
    assert all(row["source"] for row in rows)
    listed = {row["file"] for row in rows}
    for file in (GOLDEN / engine).rglob("*.log"):
        name = file.relative_to(GOLDEN / engine).as_posix()
        assert name in listed or name.partition("/")[0] in listed, name
    for name in listed:
        assert (GOLDEN / engine / name).exists()
    lines = GOLDEN / engine / "lines.jsonl"
    single = {json.loads(line)["version"] for line in lines.read_text().splitlines()} if lines.exists() else set()
    assert single == {row["version"] for row in rows if row["file"] == "lines.jsonl"}


@pytest.mark.parametrize(("engine", "row"), STATED, ids=[f"{engine}-{row['file']}" for engine, row in STATED])
def test_a_log_names_its_engine(engine: str, row: dict[str, Any]) -> None:
    recognises = engines.log_reader(engine.replace("_", "-")).recognises
    lines = (GOLDEN / engine / row["file"]).read_text(errors="replace").splitlines()
    own = any(recognises(line) for line in lines)
    others = [name for name in engines.names() if any(map(engines.log_reader(name).recognises, lines))]
    assert own
    assert (
        set(others) <= {engine.replace("_", "-"), "llamacpp"}
        if engine == "ollama"
        else others == [engine.replace("_", "-")]
    )
