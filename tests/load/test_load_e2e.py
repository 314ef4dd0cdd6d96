"""The load client on the real engine."""

from __future__ import annotations

from typing import Any

import pytest

from kvlab.launch import Server
from kvlab.load.bench import BenchSpec, bench
from kvlab.load.datasets import Dataset, RandomTokens, SharedPrefix
from kvlab.load.spec import Endpoint, LoadSpec

pytestmark = pytest.mark.e2e


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
