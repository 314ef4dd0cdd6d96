"""Advice narrowed to one engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.advice import fitting, narrowed

TITLES = ("vLLM", "SGLang", "llama.cpp", "Ollama")


@pytest.mark.parametrize(
    ("item", "engine", "left"),
    [
        ("lower the share: vLLM --a, SGLang --b", "SGLang", "lower the share: SGLang --b"),
        ("lower the share: vLLM --a, SGLang --b", "vLLM", "lower the share: vLLM --a"),
        ("shrink it: vLLM --a and --c, SGLang --b, or wait", "SGLang", "shrink it: SGLang --b, or wait"),
        ("more GPUs, or smaller weights", "vLLM", "more GPUs, or smaller weights"),
        ("Ollama: ollama pull NAME; ollama list shows it", "Ollama", "Ollama: ollama pull NAME; ollama list shows it"),
        ("keep it in RAM (vLLM --a, llama.cpp -b), slowly", "vLLM", "keep it in RAM (vLLM --a), slowly"),
        ("turn it on: -fa on (Ollama: OLLAMA_C=1)", "llama.cpp", "turn it on: -fa on"),
        ("turn it on: -fa on (Ollama: OLLAMA_C=1)", "Ollama", "turn it on: -fa on (Ollama: OLLAMA_C=1)"),
        ("wait (ten minutes, or more)", "vLLM", "wait (ten minutes, or more)"),
    ],
)
def test_clauses_of_other_engines_go(item: str, engine: str, left: str) -> None:
    assert narrowed([item, "read on"], engine, TITLES) == (left, "read on")


@pytest.mark.parametrize("item", ["Ollama: ollama pull NAME; ollama list shows it", "raise it: SGLang --b, Ollama C=1"])
def test_items_for_others_alone_go_as_a_whole(item: str) -> None:
    assert narrowed([item, "read on"], "vLLM", TITLES) == ("read on",)


def test_advice_for_one_of_two_engines_keeps_both() -> None:
    assert narrowed(["lower it: vLLM --a, SGLang --b, Ollama C=1"], ("vLLM", "SGLang"), TITLES) == (
        "lower it: vLLM --a, SGLang --b",
    )


def test_a_remedy_for_other_words_goes_and_a_condition_that_holds_is_not_repeated() -> None:
    items = ('for "Bfloat16" or "bf16": --dtype half', 'for "no kernel": another build', "wait")
    assert fitting(items, "CUDA error: no kernel image") == ("another build", "wait")
    assert fitting(items, "bf16 and no kernel") == ("--dtype half", "another build", "wait")
    assert fitting(items[:2], "something else") == items[:2]


def test_advice_is_never_empty() -> None:
    assert narrowed(["SGLang: --b"], "vLLM", TITLES) == ("SGLang: --b",)


@given(st.lists(st.text(alphabet=":,;() vLSGang-1.cp"), min_size=1))
def test_any_text_is_narrowed(items: list[str]) -> None:
    assert narrowed(items, "vLLM", TITLES)
