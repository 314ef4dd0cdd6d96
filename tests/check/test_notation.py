"""Python's notation of settings, as engines print it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.notation import literal, pairs

PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=20).filter(str.isprintable)
NESTED = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner), max_leaves=6)


def test_a_nested_configuration_is_one_value() -> None:
    text = "x KVTransferConfig(kv_connector='OffloadingConnector', extra={'a, b': [1, 2]}, role='kv_both'), more=1)"
    assert pairs(text, text.index("(") + 1) == {
        "kv_connector": "'OffloadingConnector'",
        "extra": "{'a, b': [1, 2]}",
        "role": "'kv_both'",
    }


@pytest.mark.parametrize("text", ["{'max_model_len': 20", "{'a': 'text", "{'a': [1, 2", "{", "{'a'"])
def test_what_the_end_of_the_line_cuts_is_not_read(text: str) -> None:
    assert pairs(text, 1) == {}


def test_the_last_of_a_list_without_brackets_may_be_cut() -> None:
    assert pairs("model='m', max_seq_len=2048, kv_cache_dtype=auto, compilation") == {
        "model": "'m'",
        "max_seq_len": "2048",
        "kv_cache_dtype": "auto",
    }


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), NESTED, max_size=5))
def test_what_python_writes_is_read_back(values: dict[str, object]) -> None:
    assert pairs(repr(values), 1) == {key: repr(value) for key, value in values.items()}


@given(st.text(max_size=200), st.integers(0, 20))
def test_no_text_stops_it(text: str, start: int) -> None:
    for value in pairs(text, start).values():
        literal(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("None", None),
        ("True", True),
        ("4096", 4096),
        ("0.92", 0.92),
        ("'fp8'", "fp8"),
        ("torch.bfloat16", "torch.bfloat16"),
    ],
)
def test_a_literal_is_a_value(text: str, value: object) -> None:
    assert literal(text) == value
