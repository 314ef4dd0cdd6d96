"""The shipped prompts, and prompts files of users."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab import prompts
from kvlab.core.errors import BadInput
from kvlab.core.quality import QualityPrompt
from kvlab.load import promptfile


def test_forty_eight_prompts_of_many_kinds_are_shipped() -> None:
    shipped = prompts.load()
    kinds = Counter(prompt.kind for prompt in shipped)
    assert len(shipped) == len({prompt.id for prompt in shipped}) == 48
    assert {"facts", "code", "arithmetic", "lists", "translation", "summary"} <= set(kinds)
    assert min(kinds.values()) >= 2
    long = [prompt for prompt in shipped if len(prompt.prompt.split()) >= 400]
    assert len(long) >= 4


def test_a_text_file_has_one_prompt_a_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("\ufeffName a colour.\n\n  Count to ten.  \n", encoding="utf-8")
    assert prompts.load(file) == (
        QualityPrompt("line-1", "own", "Name a colour."),
        QualityPrompt("line-3", "own", "  Count to ten.  "),
    )


def test_json_lines_may_name_id_and_kind(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"prompt": "a\\nb", "id": 7, "kind": "x", "more": 1}\n{"text": "c"}\n', encoding="utf-8")
    assert prompts.load(file) == (QualityPrompt("7", "x", "a\nb"), QualityPrompt("line-2", "own", "c"))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.txt", b"\n \n", "holds no prompt"),
        ("empty.jsonl", b"", "holds no prompt"),
        ("cut.jsonl", b'{"prompt": "a"}\n{"prompt": ', "line 2"),
        ("list.jsonl", b'["a"]', "line 1"),
        ("other.jsonl", b'{"question": "a"}', "line 1 must hold"),
        ("chat.jsonl", b'{"messages": [{"role": "user", "content": "a"}]}', "line 1 holds messages"),
        ("deep.jsonl", b'{"messages": [{"a": ' + b"[" * 100_000, "line 1"),
        ("blank.jsonl", b'{"prompt": ""}', "holds an empty prompt"),
        (
            "twice.jsonl",
            b'{"prompt": "a", "id": "1"}\n{"prompt": "b", "id": 1}',
            "second prompt with the id '1'",
        ),
        ("latin.txt", b"\xe9t\xe9", "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        prompts.load(file)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_one_line(tmp_path: Path) -> None:
    for path, says in (
        (tmp_path / "none.txt", "no prompts file"),
        (tmp_path, "is a folder"),
        (Path("/dev/zero"), "device"),
    ):
        with pytest.raises(BadInput, match=says):
            prompts.load(path)


@given(st.text(), st.sampled_from(["txt", "jsonl"]))
def test_any_text_is_prompts_or_one_line(text: str, suffix: str) -> None:
    said = ""
    try:
        found = promptfile.parse(text, Path(f"mine.{suffix}"))
        assert all(given.text or given.messages for given in found)
    except BadInput as problem:
        said = str(problem)
    assert "\n" not in said
