"""The load client on the real engine."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, web
from scripted_server import begun, serving

from kvlab import api
from kvlab.cli import main
from kvlab.core.errors import BadInput
from kvlab.launch import Server, start
from kvlab.load.bench import BenchSpec, bench
from kvlab.load.datasets import Dataset, RandomTokens, SharedPrefix, ShareGpt, TraceFile
from kvlab.load.spec import Endpoint, LoadSpec

pytestmark = pytest.mark.e2e
MOONCAKE = Path(__file__).parent.parent / "golden" / "traces" / "mooncake_conversation_trace.jsonl.gz"
SLICE = (3, 40, 125, 261, 500, 702, 861, 1585, 1900, 2199)
"""Rows of three conversations, between one another, each a few turns long."""


def spec(dataset: Dataset, count: int, *, seed: int, endpoint: Endpoint = "completions") -> BenchSpec:
    load = LoadSpec(concurrency=2, seed=seed, endpoint=endpoint)
    return BenchSpec(dataset=dataset, load=load, num_prompts=count, warm_up=1)


@pytest.mark.parametrize("tokens", [2, 33, 150])
def test_random_prompts_are_exactly_as_long_as_the_engine_counts(llama_server: Server, tokens: int) -> None:
    result = bench(llama_server.url, spec(RandomTokens(input_tokens=tokens, output_tokens=4), 4, seed=tokens))
    assert [row.error for row in result.rows] == [None] * 4
    assert [row.prompt_tokens for row in result.rows] == [tokens] * 4
    assert [row.output_tokens for row in result.rows] == [4] * 4
    assert all(row.tokens_from == "usage" and row.finish_reason == "length" for row in result.rows)
    own: Any = result.metrics["kvlab"]
    assert (own["engine"], own["prompt_length_mismatches"]) == ("llamacpp", 0)
    assert result.pool.samples >= 2
    assert result.pool.peak_running is not None


def test_shared_prefixes_are_found_by_the_engine(llama_server: Server) -> None:
    data = SharedPrefix(prefix_tokens=100, suffix_tokens=9, output_tokens=2)
    load = LoadSpec(concurrency=1, seed=5)
    result = bench(llama_server.url, BenchSpec(dataset=data, load=load, num_prompts=4, warm_up=0))
    assert [row.prompt_tokens for row in result.rows] == [109] * 4
    # The engine's own measure of what a prompt shares with its slot: 100 of 109 tokens. (It then computes them again
    # all the same: a sliding-window cache keeps too little of the past.)
    assert llama_server.log.read_text(errors="replace").count("f_sim_best = 0.917") == 3
    cached = [row.cached_tokens for row in result.rows]
    assert result.pool.prefix_hit_rate == pytest.approx(sum(filter(None, cached)) / (4 * 109), abs=0.01)


def test_chat(llama_server: Server) -> None:
    data = RandomTokens(input_tokens=20, output_tokens=3)
    result = bench(llama_server.url, spec(data, 2, seed=8, endpoint="chat"))
    assert [(row.error, row.output_tokens) for row in result.rows] == [(None, 3)] * 2


def test_behind_a_gateway_prompts_are_made_with_the_tokenizer_that_is_named(
    llama_server: Server, gemma: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says "somebody" of itself, and has no page for tokens; the engine behind it counts."""

    async def relay(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        async with ClientSession() as session, session.post(llama_server.url + request.path, json=body) as got:
            response = await begun(request)
            async for piece in got.content.iter_any():
                await response.write(piece)
            await response.write_eof()
        return response

    with serving(relay) as server:
        asked = spec(RandomTokens(input_tokens=33, output_tokens=4), 4, seed=9)
        with pytest.raises(BadInput, match="--tokenizer"):
            bench(server.url, asked)
        result = bench(server.url, msgspec.structs.replace(asked, tokenizer=str(gemma)))
        lab = tmp_path / "lab"
        words = ["--points", "1", "--num-prompts", "4", "--input-tokens", "21", "--output-tokens", "2"]
        assert main(["sweep", server.url, *words, "--tokenizer", str(gemma), "--lab", str(lab)]) == 0
    assert [(row.error, row.prompt_tokens) for row in result.rows] == [(None, 33)] * 4
    own: Any = result.metrics["kvlab"]
    assert (own["prompt_length_mismatches"], own["tokenizer"]) == (0, gemma.name)
    (look,) = (lab / "looks").iterdir()
    assert {row["prompt_tokens"] for row in json.loads(look.read_text())["rows"]} == {21}


def test_a_slice_of_mooncake_hits_what_its_block_ids_say(gemma: Path, tmp_path: Path) -> None:
    """Every request finds in the cache the tokens of its blocks that came before, to within a block."""
    with gzip.open(MOONCAKE, "rt") as lines:
        rows = [line for number, line in enumerate(lines) if number in SLICE]
    trace = tmp_path / "slice.jsonl"
    trace.write_text("".join(rows))
    scale = 0.03
    plan = api.plan(
        gemma,
        engine="llamacpp",
        context=2048,
        parallel=1,
        swa_full=True,
        engine_args={"embedded": "true", "threads": "1"},
    )
    with start(plan, tmp_path / "engine.log") as server:
        data = TraceFile(path=str(trace), scale_tokens=scale, output_tokens=1)
        result = bench(server.url, BenchSpec(dataset=data, load=LoadSpec(concurrency=1), warm_up=0))
    seen: set[int] = set()
    for row, line in zip(result.rows, rows, strict=True):
        stated = json.loads(line)
        known = [block in seen for block in stated["hash_ids"]]
        assert known == sorted(known, reverse=True)  # a prefix, as the trace's README says
        seen.update(stated["hash_ids"])
        assert row.prompt_tokens == round(stated["input_length"] * scale)
        assert row.prompt_tokens is not None
        assert row.cached_tokens is not None
        ideal = min(sum(known) * 512 * scale, row.prompt_tokens)
        assert abs(row.cached_tokens - ideal) <= 512 * scale + 1, (row.cached_tokens, ideal)
    own: Any = result.metrics["kvlab"]
    cached = sum(row.cached_tokens or 0 for row in result.rows)
    assert cached == pytest.approx(own["data"]["ideal_hit_tokens"], rel=0.05)
    assert own["prompt_length_mismatches"] == 0


def test_a_conversation_turn_by_turn_repeats_what_the_engine_said(llama_server: Server, tmp_path: Path) -> None:
    texts = ("Name a colour.", "Red is a colour.", "Name another one.", "Blue is one.")
    said = [{"from": who, "value": text} for who, text in zip(("human", "gpt") * 2, texts, strict=True)]
    file = tmp_path / "talk.json"
    file.write_text(json.dumps([{"conversations": said}]))
    data = ShareGpt(path=str(file), turns="all", output_tokens=12)
    load = LoadSpec(concurrency=1, endpoint="chat")
    first, second = bench(llama_server.url, BenchSpec(dataset=data, load=load, warm_up=0)).rows
    assert (first.error, second.error) == (None, None)
    assert first.prompt_tokens is not None
    assert first.output_tokens == 12
    assert second.prompt_tokens is not None
    # The engine's twelve tokens, the new question and the template's marks; the recorded answer would make it 14 more.
    assert 18 < second.prompt_tokens - first.prompt_tokens < 80
    assert second.sent >= (first.done or 0)


def test_no_more_tokens_are_in_the_cache_than_requests_have(llama_server: Server) -> None:
    """One request at a time of 20 tokens and 60 of answer; llama-server's /slots counts its answer once, not twice."""
    load = LoadSpec(concurrency=1, seed=9, sample_every=0.05)
    data = RandomTokens(input_tokens=20, output_tokens=60)
    result = bench(llama_server.url, BenchSpec(dataset=data, load=load, num_prompts=3, warm_up=1))
    used = [sample.values["kv_used_tokens"] for sample in result.samples if "kv_used_tokens" in sample.values]
    assert 20 <= max(used) <= 81  # a token that is drawn and not yet decoded may be counted
