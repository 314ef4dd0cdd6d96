"""Long texts: what they hide is where it should be, the asked answer follows from the text alone, lengths hold."""

from __future__ import annotations

import re
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab import needles
from kvlab.core.errors import BadInput
from kvlab.core.needle import found
from kvlab.haystack import cells, haystacks

SEEDS = st.integers(0, 10**9)
DEPTH = st.sampled_from(needles.DEPTHS)
KINDS = needles.needles()


class Words:
    """A tokenizer that takes words, and adds one token before every prompt."""

    async def ids(self, text: str, special: bool = True) -> list[int]:
        return list(range(len(text.split()) + special))


def text_of(kind: str, seed: int, depth: float, sentences: int = 60) -> tuple[str, str, tuple[str, ...]]:
    source = Random(seed)
    hidden = KINDS[kind].make(source, depth)
    return needles.buried(list(islice(needles.filler(source), sentences)), hidden.facts), hidden.asks, hidden.answers


@given(SEEDS, DEPTH, st.sampled_from(["single", "multi_key", "multi_value"]))
def test_codes_asked_for_are_those_that_the_text_gives(seed: int, depth: float, kind: str) -> None:
    text, asks, answers = text_of(kind, seed, depth)
    thing = re.search(r"codes? of the (\w+ \w+)", asks)
    assert thing is not None
    assert sorted(re.findall(rf"The code of the {thing[1]} is (\d+)\.", text)) == sorted(answers)
    assert len(re.findall(r"\d+", text)) == {"single": 1, "multi_key": 6, "multi_value": 2}[kind]


@given(SEEDS, DEPTH)
def test_variables_asked_for_are_those_that_have_the_value(seed: int, depth: float) -> None:
    text, asks, answers = text_of("tracking", seed, depth)
    values: dict[str, str] = {}
    for name, of in re.findall(r"VAR (\w+) = (?:VAR )?(\w+)\.", text):
        values[name] = values.get(of, of)
    asked = re.search(r"\d+", asks)
    assert asked is not None
    assert {name for name, value in values.items() if value == asked[0]} == set(answers)
    assert len(values) == 8
    assert set(values.values()) - {asked[0]}, "another chain"


@given(SEEDS, DEPTH, st.sampled_from(list(KINDS)))
def test_the_fact_that_is_asked_for_stands_at_its_depth(seed: int, depth: float, kind: str) -> None:
    text, _, answers = text_of(kind, seed, depth, 200)
    at = min(text.index(answer) for answer in answers) if kind == "tracking" else text.index(answers[0])
    assert at / len(text) == pytest.approx(depth, abs=0.06)


@given(SEEDS)
def test_filler_never_repeats_and_begins_anew_with_every_seed(seed: int) -> None:
    sentences = list(islice(needles.filler(Random(seed)), 3000))
    assert len({sentence.lower() for sentence in sentences}) == 3000
    assert not re.search(r"\d|\b[A-Z]{2,}\b", " ".join(sentences))
    assert sentences[0] != next(needles.filler(Random(seed + 1)))


@pytest.mark.parametrize(
    ("said", "right"),
    [
        (" 48213.", True),
        (" 48213 and the lamp was 11111", True),
        (" 11111 or 48213", False),
        (" 482130", False),
        (" 4821", False),
        ("", False),
    ],
)
def test_the_first_code_counts(said: str, right: bool) -> None:
    hidden = KINDS["single"].make(Random(1), 0.5)
    assert found(KINDS["single"], hidden, said.replace("48213", hidden.answers[0])) is right


@pytest.mark.parametrize(
    ("said", "right"),
    [("{0}, {1}", True), ("{1} and {0}", True), ("{0}, {0}, {1}", True), ("{0}", False), ("{0}, 1, {1}", False)],
)
def test_both_codes_count_in_any_order(said: str, right: bool) -> None:
    hidden = KINDS["multi_value"].make(Random(1), 0.5)
    assert found(KINDS["multi_value"], hidden, said.format(*hidden.answers)) is right


def test_names_of_variables_count_and_the_word_var_does_not() -> None:
    hidden = KINDS["tracking"].make(Random(1), 0.5)
    one, two, three, four = hidden.answers
    assert found(KINDS["tracking"], hidden, f" VAR {four}, VAR {one}, {two} and {three}. None else")
    assert not found(KINDS["tracking"], hidden, f" {four}, {one}, {two}")


@pytest.mark.parametrize("items", [1, 5, 60, 120])
def test_cells_go_through_lengths_depths_and_kinds_alike(items: int) -> None:
    made = cells((256, 512, 1024), items)
    assert len({cell.id for cell in made}) == items
    columns: list[list[object]] = [[cell.length for cell in made]]
    columns += [[cell.depth for cell in made]] if items >= 15 else []
    columns += [[cell.needle for cell in made]] if items >= 60 else []
    for column in columns:
        counts = [column.count(value) for value in set(column)]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("length", [120, 333, 1000, 8000])
async def test_texts_have_the_length_that_was_asked_for(length: int) -> None:
    made = await haystacks(Words(), cells((length,), 20), 7, lambda done: None)  # type: ignore[arg-type]
    for hay in made:
        assert length - 24 < hay.tokens <= length
        assert hay.tokens == len(hay.text.split()) + 1
        assert hay.text.endswith(hay.hidden.asks)
        assert all(fact.text in hay.text for fact in hay.hidden.facts)
    assert len({hay.text[:40] for hay in made}) == 20, "no two prompts begin alike"


async def test_a_length_without_room_is_refused() -> None:
    with pytest.raises(BadInput, match="no room"):
        await haystacks(Words(), cells((12,), 1), 7, lambda done: None)  # type: ignore[arg-type]
