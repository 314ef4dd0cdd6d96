"""What `kvlab ab` can send: the data sets, endpoints and arrivals of `kvlab bench`, in every run of both arms."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec
import pytest

from kvlab import api, store
from kvlab.cli import load_verb
from kvlab.cli.commands import ab
from kvlab.core.errors import BadInput
from kvlab.core.forecast import forecast
from kvlab.core.plan import Ask
from kvlab.core.record import Load
from kvlab.load.datasets import RandomTokens, SharedPrefix, ShareGpt
from kvlab.measuring import load_spec
from kvlab.reporting.sections import arrivals, sent
from kvlab.settings import Settings


def asked(*words: str) -> Settings:
    parser = argparse.ArgumentParser()
    load_verb("ab").arguments(parser)
    return ab._settings(parser.parse_args(["m.gguf", *words]))


def test_the_usual_load() -> None:
    found = asked()
    assert found.load == Load(
        dataset="random", prompts=32, input_tokens=512, output_tokens=64, concurrency=8, rate=None, seed=0
    )
    assert found.dataset == RandomTokens(input_tokens=512, output_tokens=64)
    assert found.warm_up == 8


def test_a_shared_prefix_and_the_prefix_experiment_have_lengths_of_their_own() -> None:
    found = asked("--dataset", "shared-prefix", "--shared-tokens", "300", "--prefix-tokens", "900")
    assert found.dataset == SharedPrefix(prefix_tokens=300, suffix_tokens=212, output_tokens=64, prefixes=1)
    assert found.prefix_tokens == 900
    with pytest.raises(BadInput, match="--shared-tokens 512 must be less than --input-tokens 512"):
        asked("--dataset", "shared-prefix", "--shared-tokens", "512")


def test_conversations_in_bursts_to_the_chat_endpoint() -> None:
    words = "--dataset sharegpt --prompts c.json --turns all --rate 2 --burstiness 0.5 --endpoint chat"
    found = asked(*words.split())
    assert found.dataset == ShareGpt(path="c.json", output_tokens=None, turns="all", history="server")
    spec = load_spec(found.load)
    assert (spec.rate, spec.burstiness, spec.endpoint, spec.concurrency) == (2.0, 0.5, "chat", None)
    assert arrivals(found.load) == "open loop, 2 requests a second in gaps of gamma shape 0.5, chat endpoint"


def test_bursts_of_a_closed_loop_are_refused() -> None:
    with pytest.raises(BadInput, match=r"burstiness 0\.5 is of an open loop"):
        asked("--burstiness", "0.5")


def test_even_gaps_stay_in_the_lab() -> None:
    """JSON has no inf: the lab, its record and kvlab.lock would hold a null that none of them can be read with."""
    found = asked("--rate", "2", "--burstiness", "inf")
    kept = msgspec.json.decode(store.encode(found), type=Settings)
    assert kept == found
    assert load_spec(kept.load).burstiness == float("inf")
    assert arrivals(kept.load) == "open loop, 2 requests a second in even gaps"
    with pytest.raises(BadInput, match="cannot hold a burstiness of inf; give None"):
        load_spec(msgspec.structs.replace(found.load, burstiness=float("inf")))


def test_an_open_loop_tells_its_cap_and_foretells_nothing(gemma: Path) -> None:
    load = asked("--rate", "2", "--concurrency", "4").load
    assert arrivals(load) == "open loop, 2 requests a second, at most 4 in flight"
    plan = api.plan_ask(gemma, Ask(engine="llamacpp", context=1024, parallel=2))
    assert forecast({"a": plan}, msgspec.structs.replace(load, rate=None))
    assert forecast({"a": plan}, load) == ()


def test_a_warm_up_is_no_larger_than_the_load() -> None:
    assert asked("--num-prompts", "6", "--concurrency", "1000").warm_up == 6
    assert asked("--num-prompts", "2", "--concurrency", "1000").warm_up == 4


def test_conversations_are_counted_as_such() -> None:
    words = "--dataset sharegpt --prompts c.json --endpoint chat --num-prompts 8 --turns"
    assert sent(asked(*words.split(), "all").load, "request") == "8 conversations, all their turns"
    assert sent(asked(*words.split(), "first").load, "request") == "8 requests"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--turns all", "--turns all is of --dataset sharegpt, not of random"),
        ("--prompts p.txt --history recorded", "--history recorded is of --dataset sharegpt, not of prompts"),
        ("--dataset sharegpt --prompts c.json --history recorded", "--history recorded is of later turns"),
        ("--shared-tokens 100", "--shared-tokens 100 is of --dataset shared-prefix, not of random"),
        ("--prefixes 3", "--prefixes 3 is of --dataset shared-prefix, not of random"),
        ("--format openai", "--format openai is of --dataset log and trace, not of random"),
        ("--dataset log --prompts l.jsonl --scale-tokens 2", r"--scale-tokens 2\.0 is of --dataset trace, not of log"),
        ("--dataset trace --prompts t.csv --rate 3 --scale-time 2", "--scale-time 2 is of .* which --rate replaces"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(words: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        asked(*words.split())


def test_a_trace_comes_at_its_own_times() -> None:
    found = asked("--dataset", "trace", "--prompts", "t.csv").load
    assert (found.rate, found.concurrency, found.output_tokens) == (None, None, None)
    assert arrivals(found) == "open loop, at the times of the data set"


@pytest.mark.e2e
def test_both_arms_hold_the_same_conversations(gemma: Path, tmp_path: Path) -> None:
    """Three conversations of two turns: a second turn holds the first one, the server's answer, and its own words."""
    turns = [
        {"from": who, "value": f"{text} {number}"}
        for number in range(3)
        for who, text in (("human", "Name a river of"), ("gpt", "One"), ("human", "And another of"), ("gpt", "Two"))
    ]
    talks = [{"id": str(number), "conversations": turns[4 * number : 4 * number + 4]} for number in range(3)]
    file = tmp_path / "talks.json"
    file.write_text(json.dumps(talks))
    arm = Ask(engine="llamacpp", context=1024, parallel=2, engine_args=(("embedded", "true"),))
    wanted = msgspec.structs.replace(
        asked("--dataset", "sharegpt", "--prompts", str(file), "--turns", "all", "--endpoint", "chat"),
        source=str(gemma),
        a=arm,
        b=msgspec.structs.replace(arm, prefix_caching=False),
        quality_tokens=None,
        prefix_rounds=None,
        warm_up=1,
    )
    load = msgspec.structs.replace(wanted.load, prompts=3, output_tokens=6, concurrency=2)
    data = ShareGpt(path=str(file), output_tokens=6, turns="all", history="server")
    record = api.ab(msgspec.structs.replace(wanted, load=load, dataset=data), tmp_path / "lab")
    assert [run.completed for run in record.runs] == [6] * 4
    for run in record.runs:
        first, second = ([row.prompt_tokens or 0 for row in run.rows[at::2]] for at in (0, 1))
        assert all(later > early + 6 for early, later in zip(first, second, strict=True))
    assert record.ab is not None
    assert "the turns of one conversation are drawn as requests of their own" in " ".join(record.ab.verdict.because)
    assert [arm.label for arm in record.ab.arms.values()] == [
        "prefix caching the engine's own",
        "prefix caching off",
    ]
