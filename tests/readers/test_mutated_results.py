"""No change to a result file gives anything but numbers or one line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.core.errors import BadInput
from kvlab.core.units import MOST
from kvlab.readers import read

GOLDEN = Path(__file__).parent.parent / "golden" / "results"
FILES = sorted(file for file in GOLDEN.iterdir() if file.suffix != ".md" and file.stat().st_size < 80_000)
SPLICES = (
    b"null",
    b"NaN",
    b"Infinity",
    b"-1",
    b"1e999",
    b'"x"',
    b"[]",
    b"{}",
    b"true",
    b",",
    b"\n",
    b"\x00",
    b"9" * 400,
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_mutated_file_gives_numbers_or_one_line(file: Path, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    data = bytearray(file.read_bytes())
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data) or 1)
        # Values end where a comma or a bracket stands: there a splice replaces one whole.
        end = next((place for place in range(at, min(at + 60, len(data))) if data[place] in b",}]\n"), at)
        kind = draw.randrange(3)
        if kind == 0:
            data[at:end] = draw.choice(SPLICES)
        elif kind == 1:
            start = data.rfind(b":", 0, at) + 1
            data[start:end] = draw.choice(SPLICES)
        else:
            del data[at : at + draw.randint(1, 200)]
    copy = tmp_path / "mutated"
    copy.write_bytes(bytes(data) or b" ")
    problem = None
    try:
        result = read(Path(f"{copy}#1"))
    except BadInput as found:
        problem = str(found)
    if problem is not None:
        assert "\n" not in problem
        return
    stated = [*result.metrics.values(), *(own.value for own in result.own.values())]
    assert all(0 <= number <= MOST for number in stated)
    assert all(0 <= number <= MOST for values in result.lists.values() for number in values)
