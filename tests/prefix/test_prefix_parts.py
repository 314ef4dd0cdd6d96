"""The further parts of `kvlab prefix` against a cache of blocks whose size, pool and salts the test decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from block_server import BlockServer, block_server

import kvlab
from kvlab.core.errors import BadInput
from kvlab.core.quality import Prefix

SHORT: dict[str, Any] = {"rounds": 2, "warm": 2, "prefix_tokens": 200}


def measured(server: BlockServer, **asked: Any) -> Prefix:
    return kvlab.prefix(server.url, **{**SHORT, **asked})


@pytest.mark.parametrize("size", [16, 48, 528])
@pytest.mark.parametrize("usage", [True, False])
def test_the_block_size_is_found_from_usage_or_from_the_counters(size: int, usage: bool) -> None:
    with block_server(block=size, usage=usage) as server:
        block = measured(server, block_size=True).block
    assert block is not None
    assert (block.block_size, block.first_hit_tokens, block.verdict) == (size, size, "agrees")
    assert {probe.shared_tokens for probe in block.probes} >= {size - 1, size}
    assert all(probe.cached_tokens == probe.shared_tokens // size * size for probe in block.probes)


def test_another_block_size_than_the_stated_one_differs() -> None:
    with block_server(block=64, stated_block=16) as server:
        block = measured(server, block_size=True).block
    assert block is not None
    assert (block.block_size, block.stated_block_size, block.verdict) == (64, 16, "differs")
    assert "hits come in multiples of it" in block.because


def test_a_cache_that_says_nothing_has_no_block_size() -> None:
    with block_server(usage=False, metrics=False) as server:
        found = measured(server, block_size=True, salts=True, churn=True)
    assert found.block is not None
    assert found.block.block_size is None
    assert found.block.verdict == "not seen"
    assert found.salts is not None
    assert found.salts.verdict == "not seen"
    assert found.churn is not None
    assert found.churn.verdict == "not seen"
    assert {row.verdict for row in found.counters} == {"not seen"}


def test_tokens_reused_one_by_one_have_no_block() -> None:
    with block_server(block=1) as server:
        block = measured(server, block_size=True).block
    assert block is not None
    assert block.block_size == 1
    assert "token by token" in block.because


@pytest.mark.parametrize(
    ("salts", "verdict"), [("honoured", "isolated"), ("ignored", "not supported"), ("refused", "not supported")]
)
@pytest.mark.parametrize("usage", [True, False])
def test_salts(salts: str, verdict: str, usage: bool) -> None:
    with block_server(salts=salts, usage=usage) as server:
        found = measured(server, salts=True).salts
    assert found is not None
    assert found.verdict == verdict
    assert len(found.probes) == 6


@pytest.mark.parametrize(("usage", "tokens", "fitting"), [(True, 768, 12), (False, 3072, 3)])
def test_the_pools_end_is_found_and_agrees_with_the_simulation(usage: bool, tokens: int, fitting: int) -> None:
    """600 blocks of 16: 9,600 tokens. Of prefixes of 48 blocks 12 fit, and the 13th evicts the first; of 192, 3."""
    with block_server(blocks=600, usage=usage) as server:
        churn = measured(server, churn=True, churn_tokens=tokens).churn
    assert churn is not None
    held, lost = (point.prefixes for point in churn.points if point.tokens in (churn.held_tokens, churn.lost_tokens))
    assert (held, lost) == (fitting, fitting + 1)
    assert (churn.pool_tokens, churn.pool_from, churn.verdict) == (9616, "the server", "agrees")
    assert churn.points[-1].hit_share is not None
    assert churn.points[-1].hit_share < 0.2
    for point in churn.points:
        assert point.hit_share == pytest.approx(point.lru_hit_share, abs=0.05)


def test_the_pool_of_a_plan_is_looked_for(qwen: Path, tmp_path: Path) -> None:
    """Qwen3-8B holds 147,456 bytes a token in bfloat16: 0.5 GiB are 227 blocks of 16, and one is kept empty."""
    plan = kvlab.plan(qwen, gpu="h100-80gb", pool_gib=0.5, context=2048)
    file = tmp_path / "plan.json"
    file.write_bytes(msgspec.json.encode(plan))
    with block_server(blocks=226, metrics=False) as server:
        found = measured(server, churn=True, churn_tokens=512, block_size=True, plan=file)
    assert found.churn is not None
    assert (found.churn.pool_from, found.churn.pool_tokens, found.churn.verdict) == ("the plan", 227 * 16, "agrees")
    assert found.block is not None
    assert (found.block.stated_by, found.block.verdict) == ("the plan", "agrees")


@pytest.mark.parametrize(("blocks", "why"), [(300, "smaller than stated"), (1200, "a tier in host memory")])
def test_another_pool_than_the_stated_one_differs(blocks: int, why: str) -> None:
    with block_server(blocks=blocks, stated_blocks=600) as server:
        churn = measured(server, churn=True, churn_tokens=1536).churn
    assert churn is not None
    assert churn.verdict == "differs"
    assert why in churn.because
    assert churn.held_tokens is not None
    assert churn.held_tokens < blocks * 16


def test_the_churn_stops_at_its_bounds() -> None:
    with block_server(metrics=False) as server:
        churn = measured(server, churn=True, most_requests=20, churn_tokens=64).churn
    assert churn is not None
    assert churn.lost_tokens is None
    assert churn.verdict == "not seen"
    assert "the bound of 20 requests was reached" in churn.because
    assert sum(point.prefixes for point in churn.points) < 20


def test_counters_are_reconciled_to_the_token() -> None:
    with block_server() as server:
        found = measured(server, lengths=True, block_size=True, salts=True)
        assert {row.verdict for row in found.counters} == {"agrees"}
        assert {row.part for row in found.counters} == {"cold and warm", "lengths", "block size", "salts"}
        warm_up = 4  # words
        looked_up = [row for row in found.counters if row.counter == "prefix_queries_tokens_total"]
        assert sum(row.counted or 0 for row in looked_up) == server.queries - warm_up
        assert (
            sum(row.counted or 0 for row in found.counters if row.counter == "prefix_hits_tokens_total") == server.hits
        )


def test_without_a_tokenizer_words_do_for_all_but_the_block_size() -> None:
    with block_server(tokenizer=False, blocks=100) as server:
        found = measured(server, lengths=True, block_size=True, salts=True, churn=True, prefix_tokens=(64, 256))
    assert found.block is not None
    assert found.block.verdict == "not seen"
    assert "has no tokenizer" in found.block.because
    assert found.salts is not None
    assert found.salts.verdict == "isolated"
    assert found.churn is not None
    assert found.churn.simulated is None
    assert found.churn.lost_tokens is not None
    assert found.lengths is not None
    assert [point.prefix_tokens for point in found.lengths.points] == [64, 256]


def test_other_traffic_is_named() -> None:
    with block_server(others=500) as server:
        found = measured(server)
    rows = {row.counter: row for row in found.counters}
    assert rows["prefix_hits_tokens_total"].verdict == "agrees"
    row = rows["prefix_queries_tokens_total"]
    assert (row.verdict, row.difference) == ("differs", 3000)
    assert "other traffic: 12 requests ended on the server, 6 of them these" in row.because


def test_lengths_show_what_caching_saves() -> None:
    """The server takes 20 us a token that it must read: 0.02 s for 1,000."""
    with block_server(block=512, slow=2e-5) as server:
        lengths = measured(server, prefix_tokens=(256, 1024, 2048, 3072), rounds=3).lengths
    assert lengths is not None
    assert lengths.verdict == "caching pays"
    assert lengths.pays_from_tokens in (1024, 2048)  # 256 tokens are half a block
    assert lengths.points[0].cached_share == 0.0
    assert not lengths.points[0].pays
    slope = lengths.saved_seconds_per_1000_tokens
    assert slope is not None
    assert 0.01 < slope.value < 0.04


def test_lengths_that_no_request_holds_are_refused() -> None:
    with block_server(limit=2048) as server, pytest.raises(BadInput, match="2,100 tokens cannot be measured"):
        measured(server, prefix_tokens=(256, 2100))


def test_the_default_lengths_end_where_a_request_does() -> None:
    with block_server(limit=2048) as server:
        lengths = measured(server, lengths=True).lengths
    assert lengths is not None
    assert [point.prefix_tokens for point in lengths.points] == [256, 512, 1024, 1968]


@pytest.mark.parametrize("asked", [{"most_requests": 3}, {"most_seconds": 0.0}, {"churn_tokens": 2}, {"chrun": True}])
def test_settings_without_an_answer(asked: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        kvlab.prefix("http://127.0.0.1:9", **asked)
