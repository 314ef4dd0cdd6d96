"""Any JSON value at any key of a published config: a plan with believable numbers, a doubt, or one line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab import api
from kvlab.core.errors import KvlabError

CONFIGS = Path(__file__).parents[1] / "golden" / "configs"
NAMES = sorted(path.name for path in CONFIGS.glob("*.json"))
NESTED = ("text_config", "quantization_config", "rope_scaling", "linear_attn_config", "attn_config", "vision_config")


@cache
def golden(name: str) -> Any:
    return json.loads((CONFIGS / name).read_text())


@cache
def known() -> tuple[str, ...]:
    """Every key of every published config, with the object that it lies in."""
    keys = {key for name in NAMES for key in golden(name)}
    keys |= {f"{at}.{key}" for name in NAMES for at in NESTED for key in golden(name).get(at) or {}}
    return tuple(sorted(keys))


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.integers(-(2**80), 2**80),
    st.sampled_from([4_000, 100_000, 100_000_000, 2**31, 10**400]),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["full_attention", "sliding_attention", "linear_attention", "mamba", "auto", "fp8", "M*-"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
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
    refused = ""
    try:
        plan = api.plan(path, engine=engine, gpu="h100-80gb")
    except KvlabError as error:
        refused = str(error)
        assert len(refused.splitlines()) == 1
        return
    for where, number in numbers(msgspec.to_builtins(plan)):
        assert math.isfinite(number), where
        assert abs(number) <= 1 << 60, where
        assert number >= 0 or where.startswith(".ledger"), where
    assert any(line.bytes_per_token or line.bytes_per_sequence for line in plan.layout)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "model.json"


@settings(max_examples=120, deadline=None)
@given(data=st.data(), name=st.sampled_from(NAMES), engine=st.sampled_from(["vllm", "llamacpp"]))
def test_any_value_at_any_known_key(file: Path, data: st.DataObject, name: str, engine: str) -> None:
    config = json.loads(json.dumps(golden(name)))
    for _ in range(data.draw(st.integers(1, 2))):
        at, _, key = data.draw(st.sampled_from(known())).rpartition(".")
        place = config.get(at) if at else config
        (place if isinstance(place, dict) else config)[key] = data.draw(VALUES)
    file.write_text(json.dumps(config))
    check(file, engine)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), engine=st.sampled_from(["vllm", "llamacpp"]))
def test_configs_of_known_keys_alone(file: Path, data: st.DataObject, engine: str) -> None:
    keys = [key for key in known() if "." not in key]
    file.write_text(json.dumps(data.draw(st.dictionaries(st.sampled_from(keys), VALUES, max_size=8))))
    check(file, engine)
