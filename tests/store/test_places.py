"""What is given to Python calls where a path belongs, and is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvlab import api
from kvlab.core.errors import BadInput

CALLS: dict[str, Callable[[Any], object]] = {
    "explain": api.explain,
    "check": api.check,
    "compare": lambda path: api.compare(path, path),
    "report": api.report,
    "artefacts": lambda path: api.artefacts(path, "nowhere"),
    "traffic": api.traffic,
    "plan": api.plan,
}


@pytest.mark.parametrize("given", [5, None, b"x", ["a"], 3.5, ""])
@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_path_is_named(call: str, given: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput):
        CALLS[call](given)


def test_an_engine_that_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a line\n")
    for call in (api.explain, api.check):
        with pytest.raises(BadInput, match="no engine called 5"):
            call(tmp_path / "log", engine=5)  # type: ignore[arg-type]
