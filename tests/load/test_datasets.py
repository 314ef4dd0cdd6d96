from __future__ import annotations

from pathlib import Path

import pytest

from kvlab.core.errors import BadInput
from kvlab.load.datasets import PromptsFile, RandomTokens, SharedPrefix, fingerprint, read_prompts
from kvlab.load.making import Wanted
from kvlab.load.spec import Prompt


def test_plain_text_is_one_prompt_a_line(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_bytes("First line\r\n\n  indented: kept\nné 漢\n".encode())
    prompts = read_prompts(file, 7, "completions")
    assert [prompt.text for prompt in prompts] == ["First line", "  indented: kept", "né 漢"]
    assert [(prompt.id, prompt.output_tokens) for prompt in prompts] == [("line-1", 7), ("line-3", 7), ("line-4", 7)]


@pytest.mark.parametrize(("name", "line"), [("p.txt", "one"), ("p.jsonl", '{"prompt": "one"}')])
def test_a_byte_order_mark_is_no_part_of_a_prompt(tmp_path: Path, name: str, line: str) -> None:
    file = tmp_path / name
    file.write_text(line, encoding="utf-8-sig")
    assert [prompt.text for prompt in read_prompts(file, 3, "completions")] == ["one"]


def test_jsonl(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(
        '{"prompt": "a", "output_tokens": 3, "id": "x", "other": 1}\n\n{"text": "b"}\n'
        '{"messages": [{"role": "user", "content": "c"}]}\n'
    )
    prompts = read_prompts(file, 7, "chat")
    assert [(prompt.id, prompt.text, prompt.output_tokens) for prompt in prompts] == [
        ("x", "a", 3), ("line-3", "b", 7), ("line-4", None, 7),
    ]  # fmt: skip
    assert prompts[2].messages == ({"role": "user", "content": "c"},)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.txt", b"", "p.txt holds no prompt; write one a line"),
        ("p.txt", b" \n\n", "p.txt holds no prompt"),
        ("p.txt", b"ok\n\xff\xfe", r"p.txt is not UTF-8 text \(byte 3\)"),
        ("p.jsonl", b"", "p.jsonl holds no prompt"),
        ("p.jsonl", b'{"prompt": "a"}\n{"prompt": ', "p.jsonl line 2 is not a JSON object with a prompt: .*truncated"),
        ("p.jsonl", b'{"prompt": "a"}\n\n[1]', "p.jsonl line 3 is not a JSON object with a prompt"),
        ("p.jsonl", b'{"prompt": 1}', "p.jsonl line 1 is not a JSON object with a prompt"),
        ("p.jsonl", b'{"question": "a"}', r"p.jsonl line 1 must hold either prompt \(or text\), or messages"),
        ("p.jsonl", b'{"prompt": "a", "messages": []}', "p.jsonl line 1 must hold either"),
        ("p.JSONL", b'{"question": "a"}', "p.JSONL line 1 must hold"),
        ("p.jsonl", b'{"prompt": "a", "text": "b"}', "p.jsonl line 1 must hold either"),
        ("p.jsonl", b'{"prompt": "a", "id": 1}\n{"prompt": "b", "id": "1"}', "p.jsonl line 2 is the second prompt"),
        ("p.jsonl", b'{"prompt": ""}', "p.jsonl line 1 holds an empty prompt"),
        ("p.jsonl", b'{"prompt": "a", "output_tokens": 0}', "p.jsonl line 1 asks for 0 output tokens"),
        ("p.jsonl", b'{"messages": [{"role": "user"}]}', "p.jsonl line 1 holds messages, which need the chat endpoint"),
    ],
)
def test_files_that_hold_no_prompts(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(BadInput, match=message) as caught:
        read_prompts(file, 7, "completions")
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no prompts file at .*absent.txt"):
        read_prompts(tmp_path / "absent.txt", 7, "completions")
    with pytest.raises(BadInput, match="is a folder"):
        read_prompts(tmp_path, 7, "completions")


def test_lengths_below_one() -> None:
    with pytest.raises(BadInput, match="input tokens 0 must be at least 1"):
        RandomTokens(input_tokens=0, output_tokens=1)
    with pytest.raises(BadInput, match="prefixes -1 must be at least 1"):
        SharedPrefix(prefix_tokens=1, suffix_tokens=1, output_tokens=1, prefixes=-1)
    with pytest.raises(BadInput, match="output tokens 0 must be at least 1"):
        PromptsFile(path="x", output_tokens=0)


def test_numbers_of_prompts_that_cannot_be() -> None:
    for count, said in ((None, "is needed"), (0, "is needed"), (10**7 + 1, "10,000,001 prompts are more")):
        with pytest.raises(BadInput, match=said):
            Wanted(count, 0, "completions").needed()


def test_the_fingerprint_knows_texts_and_order() -> None:
    one, two = (Prompt(id=str(i), text=text, output_tokens=1) for i, text in enumerate("ab"))
    assert fingerprint([one, two]) == fingerprint([one, two])
    assert len({fingerprint([one, two]), fingerprint([two, one]), fingerprint([one])}) == 3
