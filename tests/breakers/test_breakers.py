"""Twenty planted causes found and named, none in a clean log, and the log that --fix writes."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from pathlib import Path

import chats
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvlab
from kvlab.core.breaker import Breakers
from kvlab.core.errors import BadInput


def written(path: Path, rows: list[chats.Chat]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def broken(path: Path, rows: list[chats.Chat], fix: Path | None = None) -> Breakers:
    found = kvlab.traffic(written(path, rows), estimate_tokens=True, fix=None if fix is None else str(fix)).breakers
    assert found is not None
    return found


@pytest.mark.parametrize("name", chats.PLANTED)
def test_a_planted_cause_is_found_named_and_fixed(tmp_path: Path, name: str) -> None:
    fixed = tmp_path / "fixed.jsonl"
    found = broken(tmp_path / "a.jsonl", chats.planted(name, 24), fixed)
    assert [one.code for one in found.found] == [chats.PLANTED[name][0]]
    assert found.found[0].tokens > 100
    assert found.fixed_hit_rate > found.hit_rate + 0.02
    again = kvlab.traffic(fixed, estimate_tokens=True)
    assert again.reuse is not None
    assert (again.reuse.ideal.hit_tokens, again.reuse.tokens) == (found.fixed_hit_tokens, found.fixed_tokens)
    assert again.breakers is not None
    assert again.breakers.found == ()


@pytest.mark.parametrize("seed", range(4))
def test_a_clean_log_has_none(tmp_path: Path, seed: int) -> None:
    fixed = tmp_path / "fixed.jsonl"
    found = broken(tmp_path / "a.jsonl", chats.clean(24, seed), fixed)
    assert found.found == ()
    assert found.fixed_hit_rate == found.hit_rate > 0.8
    rows = [json.loads(line) for line in fixed.read_text().splitlines()]
    assert [row["messages"] for row in rows] == [row["messages"] for row in chats.clean(24, seed)]


def test_the_first_token_that_differs_is_the_tokenizers(tmp_path: Path) -> None:
    found = broken(tmp_path / "a.jsonl", chats.planted("iso time", 4))
    (one,) = found.found
    # "<|im_start|>system\nCurrent time: 2026-05-0" is 43 bytes; the estimate takes four bytes for a token
    assert one.first_token == 43 // 4
    assert (one.first_block, one.requests, one.group) == (0, 3, 4)
    assert one.seen == "line 1 and line 2"


def test_two_causes_of_one_prompt_are_both_named(tmp_path: Path) -> None:
    rows = [
        chats.chat(
            f"Now: 2026-05-{at + 1:02}\n{chats.RULES[0]}\nYou are talking to {chats.NAMES[at % 8]}.\n{chats.SYSTEM}", q
        )
        for at, q in enumerate(["Rome?", "Milan?", "Paris?", "Lyon?"] * 4)
    ]
    found = broken(tmp_path / "a.jsonl", rows)
    assert {one.code for one in found.found} == {"timestamp", "user"}
    assert found.hit_rate == 0
    assert found.fixed_hit_rate > 0.7


def test_two_services_in_one_log_are_two_groups(tmp_path: Path) -> None:
    other = "Du bist der Helfer einer Bibliothek. Antworte kurz und auf Deutsch, nenne immer das Regal. " * 6
    rows = [
        row
        for at, row in enumerate(chats.planted("uuid", 12))
        for row in (row, chats.chat(other, f"Wo steht Buch {at}?"))
    ]
    found = broken(tmp_path / "a.jsonl", rows)
    assert [(one.code, one.group) for one in found.found] == [("request_id", 12)]


def test_prompts_without_messages_break_too(tmp_path: Path) -> None:
    rows: list[chats.Chat] = [{"prompt": f"[2026-05-{at:02}] {chats.SYSTEM}\nQ: {at}\nA:"} for at in range(1, 9)]
    (one,) = broken(tmp_path / "a.jsonl", rows).found
    assert (one.code, one.where) == ("timestamp", "the prompt")


def test_a_slot_of_another_kind_is_a_value(tmp_path: Path) -> None:
    moods = ["gently", "with dry humour", "as a pirate would", "formally"]
    rows = [chats.chat(f"Speak {moods[at % 4]} at all times.\n{chats.SYSTEM}", f"Question {at}?") for at in range(12)]
    (one,) = broken(tmp_path / "a.jsonl", rows).found
    assert one.code == "value"


def test_logs_without_text_have_no_breakers(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [{"prompt_token_ids": [*range(40)]}])
    assert kvlab.traffic(path).breakers is None
    with pytest.raises(
        BadInput, match="--fix rewrites the text of a log: give one, and --tokenizer or --estimate-tokens"
    ):
        kvlab.traffic(path, fix=str(tmp_path / "b.jsonl"))


def test_a_fix_never_goes_over_its_log(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", chats.planted("uuid", 3))
    for wrong in (path, tmp_path, tmp_path / "none" / "b"):
        with pytest.raises(BadInput, match="--fix"):
            kvlab.traffic(path, estimate_tokens=True, fix=str(wrong))
    kvlab.traffic(path, estimate_tokens=True, fix=str(tmp_path / "b"))
    assert (tmp_path / "b").stat().st_mode & 0o077 == 0


def test_no_text_of_the_log_is_reported(tmp_path: Path) -> None:
    rows = [chats.chat(f"Customer number: {40_000 + at}\n{chats.SYSTEM} swordfish", "swordfish?") for at in range(8)]
    found = kvlab.traffic(written(tmp_path / "a.jsonl", rows), estimate_tokens=True)
    assert found.breakers is not None
    assert found.breakers.found
    assert "swordfish" not in repr(found)
    assert "40001" not in repr(found)


TEXTS = st.lists(
    st.sampled_from(
        [
            "2026-05-01",
            "10:30",
            "user Anna",
            "id 77a",
            "{}",
            '{"b": 1, "a": 2}',
            "\n",
            "\n\n",
            "word",
            "Example 1",
            "  ",
        ]
    ),
    max_size=25,
).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=6))
def test_moving_loses_no_word(prompts: list[tuple[str, str]]) -> None:
    rows = [chats.chat(f"{system} {chats.SYSTEM}", f"{asked}?") for system, asked in prompts]
    with tempfile.TemporaryDirectory() as folder:
        fixed = Path(folder) / "fixed.jsonl"
        broken(Path(folder) / "a.jsonl", rows, fixed)
        after = [json.loads(line)["messages"] for line in fixed.read_text().splitlines()]
    for row, now in zip(rows, after, strict=True):
        messages = row["messages"]
        assert isinstance(messages, list)
        assert words(messages) - words(now) == Counter()


def words(messages: list[dict[str, str]]) -> Counter[str]:
    """Words of the messages, without marks and the numbers of examples, which are counted anew."""
    plain = "".join(letter if letter.isalpha() else " " for item in messages for letter in f"{item['content']} ")
    return Counter(set(plain.split()))


@pytest.mark.parametrize(
    "unit", [" ", "{", '{"a": ', "1", "[{", "Example 1\n\n", "2026-05-01 ", "id 7 ", "\n", "a.b@c "]
)
def test_texts_made_to_be_slow_are_not(tmp_path: Path, unit: str) -> None:
    """Any of these takes minutes where a pattern tries every end for every start."""
    rows: list[chats.Chat] = [
        chats.chat(f"{unit * (120_000 // len(unit))}{at}{chats.SYSTEM}", f"{at}?") for at in range(3)
    ]
    start = time.process_time()
    broken(tmp_path / "a.jsonl", rows)
    assert time.process_time() - start < 10


def test_a_rewritten_record_keeps_all_but_its_prompt(tmp_path: Path) -> None:
    bodies = chats.planted("iso time", 6)
    logs: list[list[chats.Chat]] = [
        [{**body, "temperature": 0.5, "usage": {"completion_tokens": 7}} for body in bodies],
        [{"ts": at, "request": body, "response": {"id": "x"}} for at, body in enumerate(bodies)],
        [{"ts": at, "request_json": json.dumps(body), "tenant": "t"} for at, body in enumerate(bodies)],
        [{"system": body["messages"][0]["content"], "messages": body["messages"][1:], "k": 1} for body in bodies],  # type: ignore[index]
        [{"instructions": b["messages"][0]["content"], "input": b["messages"][1]["content"]} for b in bodies],  # type: ignore[index]
    ]
    prompts = set()
    for rows in logs:
        fixed = tmp_path / "fixed.jsonl"
        found = broken(tmp_path / "a.jsonl", rows, fixed)
        assert [one.code for one in found.found] == ["timestamp"]
        after = [json.loads(line) for line in fixed.read_text().splitlines()]
        for row, now in zip(rows, after, strict=True):
            assert list(row) == list(now)
            same = {key for key in row if row[key] == now[key]}
            assert row.keys() - same <= {"messages", "request", "request_json", "system", "input", "instructions"}
        again = kvlab.traffic(fixed, estimate_tokens=True)
        prompts.add((again.input_tokens.mean, again.reuse.ideal.hit_tokens if again.reuse else None))
    assert len(prompts) == 1


@pytest.mark.parametrize(("name", "begins"), [("b.jsonl.gz", b"\x1f\x8b"), ("b.jsonl.zst", b"\x28\xb5\x2f\xfd")])
def test_a_fixed_log_is_compressed_as_its_name_says(tmp_path: Path, name: str, begins: bytes) -> None:
    fixed = tmp_path / name
    found = broken(tmp_path / "a.jsonl", chats.planted(next(iter(chats.PLANTED)), 24), fixed)
    assert fixed.read_bytes().startswith(begins)
    again = kvlab.traffic(fixed, estimate_tokens=True)
    assert again.reuse is not None
    assert again.reuse.ideal.hit_tokens == found.fixed_hit_tokens
