"""`kvlab bench` as it is typed."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripted_server import DONE, event, plain, serving, stream, usage, with_words

from kvlab.cli import load_verb, loading, main
from kvlab.core.errors import BadInput
from kvlab.core.vllm_result import metrics_of
from kvlab.load.bench import BenchSpec
from kvlab.load.datasets import PromptsFile, RandomTokens
from kvlab.load.ladder import ladder
from kvlab.load.spec import LoadSpec

GOOD = stream(0.02, event("a"), 0.02, event("b", "length"), usage(4, 2), DONE)


def typed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "kvlab", "bench", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "p.txt"
    file.write_text("\n".join(f"prompt {number}" for number in range(12)))
    return file


def test_a_ramp_in_bursts_with_objectives(prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    with serving(GOOD) as server:
        done = typed(
            *(server.url, "--prompts", prompts, "--ramp", "20:80", "--ramp-strategy", "exponential"),
            *("--burstiness", "0.5", "--goodput", "ttft:60000", "tpot:60000", "--percentiles", "50,90,99.9"),
            *("--warm-up", "0", "--retry", "1", "-o", out, "--json"),
        )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document == json.loads(out.read_text())
    # vLLM 0.32 writes these three only with a ramp, after max_concurrency, and then "inf" as the rate.
    keys = list(document)
    at = keys.index("max_concurrency")
    assert keys[at + 1 : at + 4] == ["ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"]
    assert (document["ramp_up_strategy"], document["ramp_up_start_rps"], document["ramp_up_end_rps"]) == (
        "exponential", 20, 80,
    )  # fmt: skip
    assert (document["request_rate"], document["burstiness"]) == ("inf", 0.5)
    assert document["request_goodput"] == pytest.approx(document["request_throughput"])
    assert {"p50_ttft_ms", "p90_tpot_ms", "p99.9_e2el_ms"} <= metrics_of(document).keys()
    own = document["kvlab"]
    assert (own["arrivals"], own["goodput"]["good"]) == ("ramp", 12)
    assert own["goodput"]["objectives_ms"] == {"ttft": 60000, "tpot": 60000}


def test_a_trace_comes_at_its_own_times(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    rows = [
        {"timestamp": at * 1000, "input_length": 600, "output_length": 2, "hash_ids": [0, at + 1]} for at in range(3)
    ]
    trace.write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "r.json"
    with serving(GOOD) as server:
        done = typed(
            *(with_words(server).url, "--dataset", "trace", "--dataset-path", trace, "--scale-time", "0.1"),
            *("--limit", "2", "--scale-tokens", "0.5", "--warm-up", "0", "--processes", "auto", "-o", out, "--json"),
        )
    assert done.returncode == 0, done.stderr
    own: dict[str, Any] = json.loads(done.stdout)["kvlab"]
    assert own["dataset"]["path"] == "t.jsonl"
    assert own["arrivals"] == "data set"
    assert own["data"]["ideal_hit_tokens"] == 256
    rows = [json.loads(line) for line in out.with_suffix(".requests.jsonl").read_text().splitlines()]
    assert [row["scheduled"] for row in rows] == pytest.approx([0.0, 0.1])
    assert [len(body["prompt"].split()) for body in server.bodies] == [299, 299]


def test_a_ladder_writes_a_file_for_each_step(prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    with serving(GOOD) as server:
        done = typed(server.url, "--prompts", prompts, "--concurrency", "1,2,4", "--warm-up", "0", "-o", out, "--json")
        shown = typed(server.url, "--prompts", prompts, "--concurrency", "1,2", "--warm-up", "0", "-o", out)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "kvlab/bench-ladder@1"
    assert [step["concurrency"] for step in document["steps"]] == [1, 2, 4]
    for step in document["steps"]:
        assert json.loads(Path(step["file"]).read_text())["max_concurrency"] == step["concurrency"]
    assert not out.exists()
    assert sorted(path.name for path in tmp_path.glob("r-c*.json")) == ["r-c1.json", "r-c2.json", "r-c4.json"]
    sent = [body["prompt"] for body in server.bodies[:12]]
    assert len(set(sent)) == 12  # no prompt twice: a cache would answer the second step
    assert "2 at once" in shown.stdout
    assert "r-c2.requests.jsonl" in shown.stdout.replace("\n", "")


def test_a_ladder_needs_prompts_for_every_step(prompts: Path) -> None:
    data = PromptsFile(path=str(prompts), output_tokens=2)
    with serving(GOOD) as server:
        spec = BenchSpec(dataset=data, load=LoadSpec(concurrency=1), num_prompts=7)
        with pytest.raises(BadInput, match="holds 12 prompts, 14 were asked for"):
            ladder(server.url, spec, [1, 2])
        with pytest.raises(BadInput, match="12 prompts are too few for 13 concurrencies"):
            ladder(server.url, BenchSpec(dataset=data, load=LoadSpec(concurrency=1)), range(1, 14))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--dataset", "sharegpt"], "--dataset sharegpt needs --dataset-path FILE"),
        (["--dataset", "random", "--prompts", "x"], "--dataset random takes no file"),
        (["--ramp", "3"], "--ramp 3 names no two rates; write FROM:TO, as in 1:20"),
        (["--ramp", "3:x"], "'x' is not a number"),
        (["--ramp", "3:0"], "must be a positive number of requests a second"),
        (["--ramp", "1:2", "--rate", "3"], "one of a rate, a ramp and arrival times"),
        (["--burstiness", "2"], "give a rate or a ramp too"),
        (["--goodput", "ttf:3"], "objective 'ttf:3': did you mean ttft"),
        (["--goodput", "ttft:soon"], "objective 'ttft:soon' has no limit in milliseconds; write ttft:500"),
        (["--percentiles", "50,101"], "is not between 0 and 100"),
        (["--percentiles", "x"], "is no list of numbers"),
        (["--concurrency", "1,0"], "must be at least 1"),
        (["--num-prompts", "10000001"], "at most 10,000,000"),
        (["--concurrency", "2,2"], "name different concurrencies"),
        (["--concurrency", "1,2", "--rate", "3"], "several concurrencies are a closed loop each"),
        (["--extra-body", "[1]"], "is no JSON object"),
        (["--processes", "many"], "is not a whole number"),
        (["--cancel-share", "0.5"], "both a share and a time"),
        (["--insecure", "--ca-file", "/nowhere/ca.pem", "--dataset", "prompts"], "needs --prompts FILE"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "http://127.0.0.1:9", *words]) == 2
    said = capsys.readouterr()
    assert line in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)


def test_the_server_is_named_where_it_does_not_answer_the_tokenizer() -> None:
    with serving(plain("{}")) as server:
        done = typed(server.url, "--num-prompts", "1")
    assert done.returncode == 2
    assert "need the engine's tokenizer" in done.stderr


def test_random_prompts_are_still_the_default() -> None:
    parser = argparse.ArgumentParser()
    load_verb("bench").arguments(parser)
    options = parser.parse_args(["http://x"])
    assert loading.dataset(options, loading.BENCH) == RandomTokens(input_tokens=1024, output_tokens=128)
    assert loading.load(options, None) == LoadSpec(concurrency=8)
