"""Every way in which llama.cpp keeps a cache, against the lines that its loader printed for the same metadata."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from gguf_writer import write

from kvlab import api, engines
from kvlab.core.check import compare

SHAPES = Path(__file__).parents[1] / "golden" / "llamacpp" / "shapes"
ASKED = re.compile(r"-c (\d+) -np (\d+) (-kvu|--no-kv-unified) -ctk/-ctv (\w+)")


def sections(log: Path) -> list[tuple[dict[str, object], list[str]]]:
    """What was asked of the server, and what it printed."""
    found = []
    for text in log.read_text().split("# ")[1:]:
        title, *lines = text.splitlines()
        asked = ASKED.fullmatch(title)
        assert asked is not None
        context, slots, unified, dtype = asked.groups()
        options: dict[str, object] = {"context": int(context), "parallel": int(slots), "kv_dtype": dtype}
        found.append((options | {"kv_unified": unified == "-kvu"}, lines))
    return found


@pytest.mark.parametrize("file", sorted(SHAPES.glob("*.json")), ids=lambda file: file.stem)
def test_every_printed_size_is_the_plans(file: Path, tmp_path: Path) -> None:
    described = json.loads(file.read_text())
    model = write(tmp_path / "model.gguf", described["arch"], described["keys"])
    for options, lines in sections(file.with_suffix(".log")):
        plan = api.plan(model, engine="llamacpp", **options)  # type: ignore[arg-type]
        observation = engines.log_reader("llamacpp").read(lines)
        exact = [row for row in compare(plan, observation).rows if row.low == row.high]
        assert [(row.name, row.planned, row.seen) for row in exact if row.verdict != "agrees"] == [], options
        printed = {seen.name for seen in observation.seen if seen.name.endswith("_bytes") and seen.value}
        assert printed <= {row.name for row in exact}, options


def test_there_are_enough_shapes() -> None:
    architectures = {json.loads(file.read_text())["arch"] for file in SHAPES.glob("*.json")}
    assert len(architectures) >= 12
