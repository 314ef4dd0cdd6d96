"""Conversations, request logs and traces as prompts."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import DONE, chat_event, event, plain, serving, stream, with_words

from kvlab.core.errors import BadInput
from kvlab.load.bench import BenchResult, BenchSpec, Prepared, bench, prepare
from kvlab.load.datasets import Dataset, PromptsFile, RequestLog, ShareGpt, TraceFile, fingerprint
from kvlab.load.spec import Endpoint, LoadSpec, Prompt

GOLDEN = Path(__file__).parent.parent / "golden"
GOOD = stream(event("a"), event("b", "length"), DONE)


def talk(*texts: str, first: str = "human") -> dict[str, object]:
    """A conversation of ShareGPT; every text is repeated to four words."""
    others = {"human": "gpt", "gpt": "human"}
    said, who = [], first
    for text in texts:
        said.append({"from": who, "value": " ".join([text] * 4)})
        who = others[who]
    return {"id": texts[0] if texts else "none", "conversations": said}


def ready(data: Dataset, endpoint: Endpoint = "completions", count: int | None = None, seed: int = 0) -> Prepared:
    """The prompts, made on a server whose tokens are words."""
    load = LoadSpec(concurrency=1, endpoint=endpoint, seed=seed)
    with serving(GOOD) as server:
        return prepare(with_words(server).url, BenchSpec(dataset=data, load=load, num_prompts=count, warm_up=0))


def written(path: Path, document: object) -> str:
    path.write_text(json.dumps(document))
    return str(path)


def words(prompts: Sequence[Prompt]) -> list[str]:
    return [(prompt.text or "").split()[0] for prompt in prompts]


def test_first_turns_come_in_the_order_of_vllm(tmp_path: Path) -> None:
    """`random.seed(0); random.shuffle(list(range(8)))` gives 4 1 5 2 0 3 7 6, and that is what vLLM's set does."""
    talks = [talk(f"q{number}", f"a{number}") for number in range(8)]
    talks[2:2] = [talk("alone"), {"id": "x"}]  # of less than two turns: left out before the shuffle
    path = written(tmp_path / "s.json", talks)
    made = ready(ShareGpt(path=path), count=6)
    assert words(made.prompts) == ["q4", "q1", "q5", "q2", "q0", "q3"]
    assert [(prompt.output_tokens, prompt.expected_prompt_tokens) for prompt in made.prompts] == [(4, 5)] * 6
    assert words(ready(ShareGpt(path=path), count=6, seed=1).prompts) != words(made.prompts)


def test_first_turns_keep_to_the_bounds_of_vllm(tmp_path: Path) -> None:
    """vLLM's is_valid_sequence: 4 tokens at least, at most 1,024 of the prompt and 2,048 in all."""
    lengths = {"fits": (1020, 500), "short": (1, 500), "mute": (9, 2), "long": (1025, 9), "both": (1000, 1100)}
    talks = [
        {"conversations": [{"from": "human", "value": f"{name} " * prompt}, {"from": "gpt", "value": "x " * answer}]}
        for name, (prompt, answer) in lengths.items()
    ]
    made = ready(ShareGpt(path=written(tmp_path / "s.json", talks)))
    assert words(made.prompts) == ["fits"]
    assert made.notes == {"conversations": 1, "out_of_bounds": 4}


@pytest.mark.parametrize("history", ["server", "recorded"])
def test_turns_follow_one_another(tmp_path: Path, history: str) -> None:
    said = talk("q1", "a1", "q2", "a2", "q3", "a3")
    said["conversations"] = [{"from": "system", "value": "Be brief"}, *said["conversations"]]  # type: ignore[misc]
    path = written(tmp_path / "s.json", [said])
    data = ShareGpt(path=path, turns="all", history=history, output_tokens=2)  # type: ignore[arg-type]
    load = LoadSpec(concurrency=1, endpoint="chat")
    answers = [
        stream(chat_event(role="assistant", content=f"own {number}"), 0.1, chat_event("stop"), DONE) for number in "123"
    ]
    with serving(*answers) as server:
        result = bench(server.url, BenchSpec(dataset=data, load=load, warm_up=0))
    assert server.most_in_flight == 1
    assert [row.prompt_id for row in result.rows] == ["0-0", "0-1", "0-2"]
    assert all(row.error is None and row.text is None for row in result.rows)
    own = [f"own {number}" if history == "server" else " ".join([f"a{number}"] * 4) for number in "12"]
    sent = [(message["role"], message["content"]) for message in server.bodies[2]["messages"]]
    assert sent == [
        ("system", "Be brief"),
        ("user", "q1 q1 q1 q1"),
        ("assistant", own[0]),
        ("user", "q2 q2 q2 q2"),
        ("assistant", own[1]),
        ("user", "q3 q3 q3 q3"),
    ]
    kept: Any = result.metrics["kvlab"]
    assert kept["data"]["history"] == history
    assert any("2 of 3 requests go on with a conversation" in remark for remark in result.remarks)


def test_a_conversation_ends_with_the_turn_that_fails(tmp_path: Path) -> None:
    talks = [talk(f"q{number}", "a1", "q", "a2", "q", "a3") for number in range(2)]
    data = ShareGpt(path=written(tmp_path / "s.json", talks), turns="all", output_tokens=2)
    good = stream(chat_event(role="assistant", content="x"), chat_event("stop"), DONE)
    spec = BenchSpec(dataset=data, load=LoadSpec(concurrency=1, endpoint="chat"), warm_up=0)
    with serving(good, plain("no", 500, "text/plain"), good) as server:
        result = bench(server.url, spec)
    assert [(row.prompt_id, row.error) for row in result.rows] == [
        ("0-0", None),
        ("0-1", "http 500: no"),
        ("0-2", "not sent: 0-1, the turn before, was not answered"),
        ("1-0", None),
        ("1-1", None),
        ("1-2", None),
    ]
    assert result.metrics["failed"] == 2
    assert len(server.bodies) == 5


def test_conversations_one_a_line_and_compressed(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.gz"
    lines = [json.dumps(talk(f"q{number}", f"a{number}")) for number in range(3)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert len(ready(ShareGpt(path=str(path))).prompts) == 3


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "holds no conversation in which a question is answered, of 0 read"),
        ('{"a": 1', "is no list of"),
        ("[1]", "is no list of"),
        ("[]", "holds no conversation in which a question is answered, of 0 read"),
        (json.dumps([talk("a", "b", first="gpt")]), "holds no conversation in which"),
        (json.dumps([talk("q", "a")]), "holds 1 conversations that can be used, 5 were asked for"),
    ],
)
def test_files_of_conversations_that_cannot_be_used(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(content)
    with pytest.raises(BadInput, match=why):
        ready(ShareGpt(path=str(path)), count=5)


def test_turn_by_turn_needs_the_chat_endpoint(tmp_path: Path) -> None:
    path = written(tmp_path / "s.json", [talk("q", "a")])
    with pytest.raises(BadInput, match="need the chat endpoint: give --endpoint chat"):
        ready(ShareGpt(path=path, turns="all"))


def test_a_log_of_chats_is_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    lines: list[dict[str, object]] = [
        {"time": 107.0, "request": {"messages": [{"role": "user", "content": "late"}], "max_tokens": 7}},
        {
            "time": 100.0,
            "request": {"messages": [{"role": "user", "content": "early"}], "tools": tools},
            "response": {"choices": [{"message": {"content": "one two three"}}]},
        },
        {
            "time": 101.0,
            "request": {"messages": [{"role": "user", "content": "middle"}]},
            "response": {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 11}},
        },
    ]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    made = ready(RequestLog(path=str(path), scale_time=0.5), "chat")
    assert made.arrivals == (0.0, 0.5, 3.5)
    assert [(prompt.messages or ())[0]["content"] for prompt in made.prompts] == ["early", "middle", "late"]
    assert [prompt.output_tokens for prompt in made.prompts] == [3, 11, 7]
    assert [prompt.more for prompt in made.prompts] == [{"tools": tools}, {}, {}]


def test_a_log_of_bodies_without_times_or_lengths(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"prompt": "a b"}\n{"prompt": [5, 6, 7]}\n')
    made = ready(RequestLog(path=str(path), output_tokens=4))
    assert made.arrivals is None
    assert [(prompt.text, prompt.token_ids, prompt.output_tokens) for prompt in made.prompts] == [
        ("a b", None, 4),
        (None, (5, 6, 7), 4),
    ]
    with pytest.raises(BadInput, match=r"log.jsonl line 1 does not tell how long its answer was: give --output-tokens"):
        ready(RequestLog(path=str(path)))
    with pytest.raises(BadInput, match="no times of its own"):
        made.load(LoadSpec(arrivals=()))
    with pytest.raises(BadInput, match="holds the requests themselves: give --dataset log"):
        ready(TraceFile(path=str(path)))


def mooncake(path: Path, rows: Sequence[tuple[int, int, list[int]]]) -> str:
    lines = [
        json.dumps({"timestamp": time, "input_length": tokens, "output_length": 20, "hash_ids": ids})
        for time, tokens, ids in rows
    ]
    path.write_text("\n".join(lines))
    return str(path)


def shared(a: Prompt, b: Prompt) -> int:
    """Words that two prompts have in common at their front."""
    pairs = list(zip((a.text or "").split(), (b.text or "").split(), strict=False))
    return next((at for at, (x, y) in enumerate(pairs) if x != y), len(pairs))


def test_a_trace_keeps_lengths_prefixes_and_times(tmp_path: Path) -> None:
    rows = [(0, 1536, [1, 2, 3]), (3000, 1300, [1, 2, 4]), (2000, 2048, [1, 2, 3, 5]), (4000, 700, [6, 7])]
    made = ready(TraceFile(path=mooncake(tmp_path / "t.jsonl", rows), scale_tokens=0.5, scale_time=0.1))
    assert made.arrivals == pytest.approx((0.0, 0.2, 0.3, 0.4))
    assert [prompt.expected_prompt_tokens for prompt in made.prompts] == [768, 1024, 650, 350]
    assert [len((prompt.text or "").split()) + 1 for prompt in made.prompts] == [768, 1024, 650, 350]
    assert [prompt.output_tokens for prompt in made.prompts] == [10] * 4
    # Words lack the one token that stands before each prompt; the first of a block that differs may be the same word.
    assert shared(made.prompts[0], made.prompts[1]) == 767  # the whole of the shorter one: ids 1, 2, 3
    assert 511 <= shared(made.prompts[0], made.prompts[2]) <= 514
    assert shared(made.prompts[0], made.prompts[3]) <= 3
    assert made.notes["ideal_hit_tokens"] == 768 + 512
    assert made.notes["ideal_hit_rate"] == pytest.approx(1280 / 2792)


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), min_size=2, max_size=6), st.floats(0.05, 2))
def test_prompts_share_what_their_ids_share(paths: list[list[int]], scale: float) -> None:
    from kvlab.load.sets.trace import _Row, _Writer
    from kvlab.load.words import Vocabulary

    vocabulary = Vocabulary(tuple(f"s{number}" for number in range(4000)), tuple(f"w{n}" for n in range(4000)))
    writer = _Writer(vocabulary, front=1, block=16 * scale, seed="1")
    # A block's id stands for it and all before it: the path to it in a tree.
    ids = [tuple(int("1" + "".join(map(str, path[: at + 1]))) for at in range(len(path))) for path in paths]
    rows = [_Row(at, None, max(2, round(len(path) * 16 * scale)), 1, ids[at]) for at, path in enumerate(paths)]
    prompts = [writer.prompt(row, exact=True) for row in rows]
    for row, prompt in zip(rows, prompts, strict=True):
        assert len((prompt.text or "").split()) == row.tokens - 1
    for i, a in enumerate(ids):
        for j, b in enumerate(ids[:i]):
            alike = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            least = min(round(alike * 16 * scale), rows[i].tokens, rows[j].tokens) - 1
            assert shared(prompts[i], prompts[j]) >= max(0, least)


@pytest.mark.parametrize("name", ["azure_conv.csv.gz", "burst.csv"])
def test_traces_without_blocks_are_replayed_by_their_lengths(name: str, tmp_path: Path) -> None:
    path = GOLDEN / "traces" / name
    if name == "burst.csv":  # the columns that BurstGPT's README states
        path = tmp_path / name
        path.write_text(
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
            "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,Conversation log\n"
        )
    made = ready(TraceFile(path=str(path), scale_time=2), count=2)
    stated = {"azure_conv.csv.gz": [(374, 44), (396, 109)], "burst.csv": [(472, 18), (1087, 230)]}[name]
    assert [(prompt.expected_prompt_tokens, prompt.output_tokens) for prompt in made.prompts] == stated
    assert made.arrivals is not None
    assert made.arrivals[0] == 0
    if name == "burst.csv":
        assert made.arrivals == (0.0, 80.0)
    assert shared(*made.prompts) <= 3
    assert "ideal_hit_rate" not in made.notes


def test_a_replay_is_bounded(tmp_path: Path) -> None:
    path = GOLDEN / "traces" / "mooncake_conversation_trace.jsonl.gz"
    with pytest.raises(BadInput, match=r"the prompts of 12,031 requests have 144,\d+,\d+ tokens, more than 32,000,000"):
        ready(TraceFile(path=str(path)))
    with pytest.raises(BadInput, match="holds 12,031 requests that can be sent, 12,032 were asked for"):
        ready(TraceFile(path=str(path)), count=12_032)


def test_a_trace_sets_the_pace(tmp_path: Path) -> None:
    path = mooncake(tmp_path / "t.jsonl", [(0, 4, [1]), (100, 4, [2]), (400, 4, [3])])
    with serving(GOOD) as server:
        spec = BenchSpec(dataset=TraceFile(path=path), load=LoadSpec(arrivals=()), warm_up=0)
        result: BenchResult = bench(with_words(server).url, spec)
    assert [row.scheduled for row in result.rows] == pytest.approx([0, 0.1, 0.4])
    assert result.rows[2].sent >= 0.4
    own: Any = result.metrics["kvlab"]
    assert (own["arrivals"], own["loop"], own["latency_from"]) == ("data set", "open", "scheduled")


def test_a_tokenizer_that_joins_words_is_refused(tmp_path: Path) -> None:
    path = mooncake(tmp_path / "t.jsonl", [(0, 600, [1, 2])])
    with serving(GOOD) as server:
        with_words(server).posts["/tokenize"] = lambda body: {"tokens": list(range(1 + len(body["content"]) // 7))}
        spec = BenchSpec(dataset=TraceFile(path=path), load=LoadSpec(arrivals=()), warm_up=0)
        with pytest.raises(BadInput, match="tokenizer"):
            prepare(server.url, spec)


def test_the_hash_of_plain_prompts_is_that_of_the_first_release() -> None:
    prompt = Prompt(id="a", text="x", output_tokens=1)
    assert fingerprint([prompt]) == "2866a12241a82fbe7be363f5d43925795b00415a5e450f36f45de4b67552e93a"
    assert fingerprint([prompt]) != fingerprint([Prompt(id="a", text="x", output_tokens=1, follows="b")])


def test_a_file_of_prompts_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_text("one\ntwo\nthree")
    assert [prompt.text for prompt in ready(PromptsFile(path=str(path), output_tokens=1), count=2).prompts] == [
        "one",
        "two",
    ]
