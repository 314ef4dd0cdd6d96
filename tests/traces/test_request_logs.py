"""Logs with text: what is counted, what is shared, what is left out, and that no text stays."""

from __future__ import annotations

import gzip
import json
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

import kvlab
from kvlab import traces
from kvlab.core.errors import BadInput
from kvlab.core.trace import Reading
from kvlab.core.traffic import Traffic

SYSTEM = "You are a helpful assistant of a railway. Be brief and polite. Children travel free of charge. " * 4
QUESTIONS = ["Rome to Milan?", "Paris to Lyon on Monday?", "And what does it cost with two children?"]


def chat(question: str, **more: object) -> dict[str, object]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    return {"model": "m", "messages": messages, **more}


def written(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def rendered(question: str) -> str:
    return f"<|system|>{SYSTEM}<|end|><|user|>{question}<|end|><|assistant|>"


def shared(tokenizer: Path, texts: list[str], size: int) -> int:
    """Tokens in whole blocks that each text shares with one before it, by comparing the tokens one by one."""
    model = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    seen: list[list[int]] = []
    hit = 0
    for text in texts:
        ids = model.encode(text).ids
        best = max((_same(ids, earlier) // size * size for earlier in seen), default=0)
        hit += min(best, len(ids) // size * size)
        seen.append(ids)
    return hit


def _same(one: list[int], two: list[int]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b),
        min(len(one), len(two)),
    )


@pytest.mark.parametrize("size", [1, 16, 64])
def test_chats_share_what_their_tokens_share(tmp_path: Path, tokenizer: Path, size: int) -> None:
    found = kvlab.traffic(
        written(tmp_path / "a.jsonl", [chat(question) for question in QUESTIONS]),
        tokenizer=str(tokenizer),
        block_size=size,
    )
    assert found.counted == "tokenizer"
    assert found.reuse is not None
    texts = [rendered(question) for question in QUESTIONS]
    assert found.reuse.ideal.hit_tokens == shared(tokenizer, texts, size) > 0
    model = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    assert found.reuse.tokens == sum(len(model.encode(text).ids) for text in texts)


def equal(one: Traffic, two: Traffic) -> bool:
    return (one.reuse, one.input_tokens, one.output_tokens) == (two.reuse, two.input_tokens, two.output_tokens)


def test_every_form_of_the_same_requests_says_the_same(tmp_path: Path, tokenizer: Path) -> None:
    model = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    ids = [model.encode(rendered(question)).ids for question in QUESTIONS]
    usage = [{"prompt_tokens": len(row), "completion_tokens": 3} for row in ids]
    both = list(zip(QUESTIONS, usage, strict=True))
    logs: dict[str, list[object]] = {
        "bodies": [chat(question, usage=used) for question, used in both],
        "beside": [{"ts": at, "request": chat(q), "response": {"usage": used}} for at, (q, used) in enumerate(both)],
        "batch": [{"custom_id": "1", "method": "POST", "url": "/v1", "body": chat(q), "usage": u} for q, u in both],
        "as text": [{"request_json": json.dumps(chat(q)), "response": json.dumps({"usage": u})} for q, u in both],
        "prompts": [{"prompt": rendered(q), "usage": u} for q, u in both],
        "ids": [{"prompt": row, "usage": u} for row, u in zip(ids, usage, strict=True)],
        "responses": [
            {
                "instructions": SYSTEM,
                "input": [{"role": "user", "content": [{"type": "input_text", "text": q}]}],
                "usage": u,
            }
            for q, u in both
        ],
        "parts": [
            {"system": SYSTEM, "messages": [{"role": "user", "content": [{"type": "text", "text": q}]}], "usage": u}
            for q, u in both
        ],
    }
    seen = []
    for name, rows in logs.items():
        path = written(tmp_path / f"{name}.jsonl", rows)
        seen.append(kvlab.traffic(path, tokenizer=str(tokenizer)))
    (tmp_path / "a.gz").write_bytes(gzip.compress(path.read_bytes()))
    (tmp_path / "a.zst").write_bytes(zstandard.compress(path.read_bytes()))
    seen += [kvlab.traffic(tmp_path / name, tokenizer=str(tokenizer)) for name in ("a.gz", "a.zst")]
    assert all(equal(seen[0], other) for other in seen[1:])
    assert not seen[0].doubts


def test_token_ids_need_no_tokenizer(tmp_path: Path) -> None:
    rows: list[object] = [{"prompt_token_ids": [*range(40), at]} for at in range(3)]
    found = kvlab.traffic(written(tmp_path / "a.jsonl", rows))
    assert found.counted == "log"
    assert found.reuse is not None
    assert (found.reuse.block_size, found.reuse.ideal.hit_tokens) == (16, 64)


def test_tools_stand_in_the_prompt(tmp_path: Path, tokenizer: Path) -> None:
    tools = [{"type": "function", "function": {"name": "timetable", "parameters": {"type": "object"}}}]
    with_tools = kvlab.traffic(
        written(tmp_path / "a.jsonl", [chat(QUESTIONS[0], tools=tools)]), tokenizer=str(tokenizer)
    )
    without = kvlab.traffic(written(tmp_path / "b.jsonl", [chat(QUESTIONS[0])]), tokenizer=str(tokenizer))
    assert with_tools.input_tokens.max > without.input_tokens.max + 20


def test_without_a_tokenizer_nothing_is_guessed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [chat(question) for question in QUESTIONS])
    with pytest.raises(BadInput, match="give --tokenizer PATH or a Hub model, or --estimate-tokens"):
        kvlab.traffic(path)
    found = kvlab.traffic(path, estimate_tokens=True)
    assert found.counted == "estimate"
    assert "estimate" in next(doubt.text for doubt in found.doubts if doubt.key == "tokens")
    counted = written(tmp_path / "b.jsonl", [chat(q, usage={"prompt_tokens": 7}) for q in QUESTIONS])
    assert kvlab.traffic(counted).reuse is None
    assert kvlab.traffic(counted).input_tokens.max == 7


def test_bad_rows_are_counted_and_named_without_their_text(tmp_path: Path, tokenizer: Path) -> None:
    bad: list[object] = [
        '{"messages": [{"role": "user", "content": "secret',
        chat("x", usage={"prompt_tokens": -3}),
        {"messages": "secret"},
        {"messages": [{"content": "secret"}]},
        {"model": "secret", "messages": []},
        chat("x", timestamp="secret"),
        {"prompt": [1, -2]},
        '"secret"',
        json.dumps(chat("x" * (17 << 20))),
        json.dumps(chat("secret \\ud800")).replace("\\\\", "\\"),
    ]
    path = written(tmp_path / "a.jsonl", [chat(QUESTIONS[0]), *bad, chat(QUESTIONS[1])])
    found = kvlab.traffic(path, tokenizer=str(tokenizer))
    assert (found.requests, found.left_out.count) == (3, 9)
    assert [row.where for row in found.left_out.first] == [f"line {at}" for at in range(2, 7)]
    assert "secret" not in repr(found)
    with pytest.raises(BadInput, match="no row that can be used, of 9") as caught:
        kvlab.traffic(written(tmp_path / "b.jsonl", bad[:9]), form="openai", tokenizer=str(tokenizer))
    assert "secret" not in str(caught.value)


def test_a_template_cannot_reach_out_of_its_sandbox(tmp_path: Path, tokenizer: Path) -> None:
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(tokenizer, folder)
    reach = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": reach}))
    with pytest.raises(BadInput, match=r"chat template refuses its messages \(SecurityError\)"):
        kvlab.traffic(written(tmp_path / "a.jsonl", [chat("x")]), tokenizer=str(folder))
    (folder / "chat_template.jinja").write_text("{% for %}")
    with pytest.raises(BadInput, match="chat template cannot be used"):
        kvlab.traffic(written(tmp_path / "b.jsonl", [chat("x")]), tokenizer=str(folder))


def test_a_tokenizer_without_a_template_is_a_doubt(tmp_path: Path, tokenizer: Path) -> None:
    path = written(tmp_path / "a.jsonl", [chat("x")])
    found = kvlab.traffic(path, tokenizer=str(_alone(tmp_path, tokenizer)))
    assert "ChatML" in next(doubt.text for doubt in found.doubts if doubt.key == "chat template")
    for wrong in (tmp_path / "none", path, tmp_path / "none.gguf"):
        with pytest.raises(BadInput, match=r"tokenizer|GGUF"):
            kvlab.traffic(path, tokenizer=str(wrong))


def _alone(folder: Path, tokenizer: Path) -> Path:
    alone = folder / "alone" / "tokenizer.json"
    alone.parent.mkdir()
    alone.write_bytes((tokenizer / "tokenizer.json").read_bytes())
    return alone


def test_several_processes_say_what_one_says(tmp_path: Path, tokenizer: Path) -> None:
    rows: list[object] = [chat(f"{QUESTIONS[at % 3]} {at % 50}", timestamp=at) for at in range(300)]
    rows[150] = '{"messages": [{"role": "us'
    path = written(tmp_path / "a.jsonl", rows)
    one, two = (traces.read(path, reading=Reading(str(tokenizer), salt=b"salt", processes=count)) for count in (1, 2))
    assert one.blocks is not None
    assert two.blocks is not None
    assert (one.blocks.ids == two.blocks.ids).all()
    assert (one.inputs == two.inputs).all()
    assert one.arrivals is not None
    assert two.arrivals is not None
    assert (one.arrivals == two.arrivals).all()
    assert one.left_out == two.left_out
    with pytest.raises(BadInput, match="not there"):
        traces.read(path, reading=Reading(str(tmp_path / "none"), processes=2))


def test_ids_of_two_runs_have_nothing_in_common(tmp_path: Path, tokenizer: Path) -> None:
    path = written(tmp_path / "a.jsonl", [chat(QUESTIONS[0])])
    runs = [traces.read(path, reading=traces.reading(str(tokenizer), False, 16)).blocks for _ in range(2)]
    assert runs[0] is not None
    assert runs[1] is not None
    assert not {*runs[0].ids.tolist()} & {*runs[1].ids.tolist()}


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_after_a_request_are_rows_left_out(content: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(json.dumps({"prompt": [1, 2, 3]}).encode() + b"\n" + content)
        file.flush()
        found = traces.read(Path(file.name))
        assert found.inputs[0] == 3


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["messages", "prompt", "role", "content", "usage", "request", "tools", "timestamp", "choices"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_record_is_a_request_or_left_out(record: object) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        with suppress(BadInput):
            traces.read(Path(file.name), "openai", Reading(estimate=True))


def test_text_of_any_alphabet_is_estimated(tmp_path: Path) -> None:
    rows: list[object] = [{"prompt": "日本語のテキスト" * 20}, {"prompt": "日本語のテキスト" * 20 + "é"}]
    found = kvlab.traffic(written(tmp_path / "a.jsonl", rows), estimate_tokens=True)
    assert found.input_tokens.max == 121
    assert found.reuse is not None
    assert found.reuse.ideal.hit_tokens == 112


def test_ids_alone_cannot_be_rewritten(tmp_path: Path, tokenizer: Path) -> None:
    path = written(tmp_path / "a.jsonl", [{"prompt": [1, 2, 3]}])
    with pytest.raises(BadInput, match="token ids alone"):
        kvlab.traffic(path, tokenizer=str(tokenizer), fix=str(tmp_path / "b.jsonl"))


def test_a_tokenizer_that_drops_text_is_refused(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    from kvlab.traces._tokens import load

    Tokenizer(models.BPE(vocab={"a": 0}, merges=[])).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(BadInput, match="drops most letters"):
        load(str(tmp_path))
