"""Damaged GGUF metadata and damaged files: a plan with believable numbers, or one line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gguf_writer import write
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab import api
from kvlab.core import gguf_arches
from kvlab.core.errors import KvlabError

SHAPES = [
    json.loads(file.read_text())
    for file in sorted((Path(__file__).parents[1] / "golden").glob("llamacpp/shapes/*.json"))
]
KEYS = sorted({key for shape in SHAPES for key in shape["keys"]})
VALUES = st.one_of(
    st.integers(0, 70),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.floats(width=32),
    st.text(max_size=4),
    st.sampled_from([10_000, 100_000, 2**31]),
    st.lists(st.integers(0, 8), min_size=1, max_size=70),
    st.lists(st.booleans(), min_size=1, max_size=40),
    st.integers(1, 70).map(lambda count: [0] * count),
    st.lists(st.text(max_size=3), min_size=1, max_size=3),
)


def numbers(document: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield from numbers(value, f"{path}.{key}")
    elif isinstance(document, list | tuple):
        for value in document:
            yield from numbers(value, path)
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield path, document


def check(path: Path, engine: str) -> None:
    try:
        plan = api.plan(path, engine=engine, gpu="rtx4090-24gb")
    except KvlabError as refused:
        line = str(refused)
    else:
        line = "one line"
        for where, number in numbers(msgspec.to_builtins(plan)):
            assert math.isfinite(number), where
            assert abs(number) <= 1 << 60, where
            assert number >= 0 or where.startswith(".ledger"), where
        assert any(row.bytes_per_token or row.bytes_per_sequence for row in plan.layout)
    assert len(line.splitlines()) == 1


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "model.gguf"


@settings(max_examples=100, deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    arch=st.one_of(st.none(), st.sampled_from(sorted(gguf_arches.KNOWN))),
    changes=st.dictionaries(st.sampled_from(KEYS), st.one_of(st.none(), VALUES), max_size=3),
    engine=st.sampled_from(["llamacpp", "llamacpp", "vllm"]),
)
def test_any_value_at_any_key(
    file: Path, shape: dict[str, Any], arch: str | None, changes: dict[str, Any], engine: str
) -> None:
    keys = {key: value for key, value in {**shape["keys"], **changes}.items() if value is not None}
    check(write(file, arch or shape["arch"], keys), engine)


@settings(max_examples=100, deadline=None)
@given(shape=st.sampled_from(SHAPES), cut=st.integers(0, 3000), junk=st.binary(min_size=1, max_size=12))
def test_any_bytes_at_any_place(file: Path, shape: dict[str, Any], cut: int, junk: bytes) -> None:
    write(file, shape["arch"], shape["keys"])
    data = bytearray(file.read_bytes())
    data[cut % len(data) : cut % len(data) + len(junk)] = junk
    file.write_bytes(data)
    check(file, "llamacpp")
    file.write_bytes(data[: cut % len(data)])
    check(file, "llamacpp")
