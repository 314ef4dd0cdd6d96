from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scripted_server import DONE, MODELS, event, plain, serving, stream, usage

from kvlab.cli import load_verb
from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.measure import PoolUse, RequestRow
from kvlab.load.bench import BenchSpec, bench, save
from kvlab.load.datasets import PromptsFile, RandomTokens, SharedPrefix
from kvlab.load.remarks import remarks
from kvlab.load.server import metrics_of, tokens_of
from kvlab.load.spec import LoadResult, LoadSpec, Prompt

GOLDEN = Path(__file__).parent.parent / "golden" / "results" / "vllm_0.32.json"
GOOD = stream(0.01, event("a"), 0.01, event("b"), 0.01, event("c", "length"), usage(4, 3, 2), DONE)


def prompts(folder: Path, count: int = 6) -> PromptsFile:
    file = folder / "prompts.txt"
    file.write_text("\n".join(f"prompt {i}" for i in range(count)))
    return PromptsFile(path=str(file), output_tokens=3)


def test_the_file_has_the_keys_of_vllm_in_its_order(tmp_path: Path) -> None:
    spec = BenchSpec(dataset=prompts(tmp_path), load=LoadSpec(concurrency=2), percentiles=(50, 90, 99), label="mine")
    with serving(GOOD) as server:
        result = bench(server.url, spec)
    vllm = json.loads(GOLDEN.read_text())
    assert list(result.metrics) == [*vllm, "kvlab"]
    for key, value in vllm.items():
        ours = result.metrics[key]
        if value is not None and key not in ("label",):
            assert isinstance(ours, int if isinstance(value, int) else type(value)), key
    assert result.metrics["label"] == "mine"
    assert result.metrics["completed"] == 6
    assert result.metrics["total_output_tokens"] == 18
    assert result.metrics["request_rate"] == "inf"
    assert len(server.bodies) == 4 + 6


def test_what_kvlab_adds(tmp_path: Path) -> None:
    spec = BenchSpec(dataset=prompts(tmp_path), load=LoadSpec(rate=100, seed=9), warm_up=0, num_prompts=4)
    with serving(GOOD, plain("no", 500, "text/plain"), GOOD) as server:
        own: Any = bench(server.url, spec).metrics["kvlab"]
    assert own["schema"] == "kvlab/bench@1"
    assert own["dataset"] == {"name": "prompts", "path": "prompts.txt", "output_tokens": 3}
    assert (own["seed"], own["loop"], own["latency_from"], own["engine"]) == (9, "open", "scheduled", None)
    assert own["tokens_from"] == ["usage"]
    assert own["errors"] == {"http 500: no": 1}
    assert own["pool"]["peak_kv_used"] is None
    assert own["client_cpu_seconds"] > 0


def test_saving(tmp_path: Path) -> None:
    with serving(GOOD) as server:
        result = bench(server.url, BenchSpec(dataset=prompts(tmp_path), load=LoadSpec(concurrency=2)))
    path = tmp_path / "out" / "run.json"
    with pytest.raises(BadInput, match=r"there is no folder .*out for the result"):
        save(result, path)
    path.parent.mkdir()
    beside = save(result, path)
    assert sorted(file.name for file in path.parent.iterdir()) == ["run.json", "run.requests.jsonl"]
    assert json.loads(path.read_text()) == msgspec.to_builtins(result.metrics)
    rows = [msgspec.json.decode(line, type=RequestRow) for line in beside.read_bytes().splitlines()]
    assert tuple(rows) == result.rows


def test_a_prompt_is_never_sent_twice(tmp_path: Path) -> None:
    spec = BenchSpec(dataset=prompts(tmp_path), load=LoadSpec(concurrency=1), num_prompts=7)
    with pytest.raises(BadInput, match=r"prompts.txt holds 6 prompts, 7 were asked for"):
        bench("http://127.0.0.1:1", spec)


def test_exact_lengths_need_a_tokenizer() -> None:
    spec = BenchSpec(dataset=RandomTokens(input_tokens=9, output_tokens=1), load=LoadSpec(concurrency=1), num_prompts=2)
    with serving(GOOD) as server:
        with pytest.raises(BadInput, match="need the engine's tokenizer, and the server does not say which engine"):
            bench(server.url, spec)
        named = msgspec.structs.replace(spec, engine="llamacpp")
        server.answers = [plain('{"error": "off"}', 501)]
        with pytest.raises(ServerRefused, match="/tokenize answered 501: off"):
            bench(server.url, named)
        server.answers = [plain("<html>", 200, "text/html")]
        with pytest.raises(ServerRefused, match="/tokenize did not answer with JSON"):
            bench(server.url, named)
        with pytest.raises(BadInput, match="a number of prompts is needed"):
            bench(server.url, msgspec.structs.replace(named, num_prompts=None))


def test_the_engine_is_known_by_its_owner() -> None:
    owner = MODELS | {"data": [{"id": "m", "owned_by": "llamacpp"}]}
    spec = BenchSpec(dataset=RandomTokens(input_tokens=9, output_tokens=1), load=LoadSpec(concurrency=1), num_prompts=2)
    with serving(plain("{}")) as server:
        server.models = plain(json.dumps(owner))
        with pytest.raises(ServerRefused, match="/tokenize did not answer with a list of token ids"):
            bench(server.url, spec)


@pytest.mark.parametrize("ask", [metrics_of, tokens_of])
def test_an_engine_that_is_not_known_is_refused_by_name(ask: Callable[[str], object]) -> None:
    with pytest.raises(BadInput, match="no engine called 'vlm'; did you mean vllm"):
        ask("vlm")


def test_prompts_that_repeat_are_remarked(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("one\ntwo\none\none\n")
    spec = BenchSpec(dataset=PromptsFile(path=str(file), output_tokens=3), load=LoadSpec(concurrency=1))
    with serving(GOOD) as server:
        result = bench(server.url, spec)
        fresh = bench(server.url, BenchSpec(dataset=prompts(tmp_path), load=LoadSpec(concurrency=1)))
    assert any("2 of 4 requests repeat a prompt of this run" in remark for remark in result.remarks)
    assert fresh.remarks == ()


def test_prefixes_that_are_shared_by_design_are_remarked() -> None:
    shared = SharedPrefix(prefix_tokens=512, suffix_tokens=8, output_tokens=1, prefixes=2)
    sent = [Prompt(id=str(number), output_tokens=1, token_ids=(number,)) for number in range(6)]
    spec = BenchSpec(dataset=shared, load=LoadSpec(concurrency=1))
    result = LoadResult(rows=(), duration=1.0, pool=PoolUse(), samples=(), model="m", client_cpu_seconds=0.0)
    assert "6 requests share 2 prefixes of 512 tokens by design" in remarks(spec, sent, result)[0]
    assert remarks(spec, sent[:2], result) == []


def test_what_json_cannot_hold_is_a_word(tmp_path: Path) -> None:
    load = LoadSpec(rate=200, burstiness=float("inf"))
    with serving(GOOD) as server:
        result = bench(server.url, BenchSpec(dataset=prompts(tmp_path), load=load, warm_up=0))
    path = tmp_path / "r.json"
    save(result, path)
    assert json.loads(path.read_text())["burstiness"] == "inf"
    gaps = [b.scheduled - a.scheduled for a, b in pairwise(result.rows)]
    assert gaps == pytest.approx([0.005] * 5)


@pytest.mark.parametrize(
    "option", ["--input-tokens", "--output-tokens", "--prefix-tokens", "--endpoint", "--ramp", "--processes", "--retry"]
)
def test_every_option_of_the_load_is_explained(option: str) -> None:
    parser = argparse.ArgumentParser()
    load_verb("bench").arguments(parser)
    (action,) = (each for each in parser._actions if option in each.option_strings)
    assert len((action.help or "").partition("(default")[0].split()) > 3
