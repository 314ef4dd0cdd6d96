"""Advice narrowed to one engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.advice import narrowed

TITLES = ("vLLM", "SGLang", "llama.cpp", "Ollama")


@pytest.mark.parametrize(
    ("item", "engine", "left"),
    [
        ("lower the share: vLLM --a, SGLang --b", "SGLang", "lower the share: SGLang --b"),
        ("lower the share: vLLM --a, SGLang --b", "vLLM", "lower the share: vLLM --a"),
        ("shrink it: vLLM --a and --c, SGLang --b, or wait", "SGLang", "shrink it: SGLang --b, or wait"),
        ("more GPUs, or smaller weights", "vLLM", "more GPUs, or smaller weights"),
        ("Ollama: ollama pull NAME; ollama list shows it", "Ollama", "Ollama: ollama pull NAME; ollama list shows it"),
        ("keep it in RAM (vLLM --a, llama.cpp -b), slowly", "vLLM", "keep it in RAM (vLLM --a, llama.cpp -b), slowly"),
    ],
)
def test_clauses_of_other_engines_go(item: str, engine: str, left: str) -> None:
    assert narrowed([item, "read on"], engine, TITLES) == (left, "read on")


@pytest.mark.parametrize("item", ["Ollama: ollama pull NAME; ollama list shows it", "raise it: SGLang --b, Ollama C=1"])
def test_items_for_others_alone_go_as_a_whole(item: str) -> None:
    assert narrowed([item, "read on"], "vLLM", TITLES) == ("read on",)


def test_advice_is_never_empty() -> None:
    assert narrowed(["SGLang: --b"], "vLLM", TITLES) == ("SGLang: --b",)


@given(st.lists(st.text(alphabet=":,;() vLSGang-1.cp"), min_size=1))
def test_any_text_is_narrowed(items: list[str]) -> None:
    assert narrowed(items, "vLLM", TITLES)
