"""Every part of `kvlab prefix` on a real vLLM whose pool is 64 blocks of 32 tokens: 2,048 tokens.

`make test-vllm VLLM=DIR` runs it beside the others: one start and some hundred short requests. vLLM on a CPU takes
blocks in multiples of 32 only. One group of layers holds the pool, so that a simulated pool of blocks says the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from running import running

import kvlab
from kvlab.core.quality import Prefix

FLAGS = (
    *("--served-model-name", "gemma", "--max-model-len", "1024", "--max-num-seqs", "4", "--block-size", "32"),
    *("--num-gpu-blocks-override", "65", "--disable-hybrid-kv-cache-manager", "--enforce-eager"),
    "--enable-prompt-tokens-details",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(FLAGS, tmp_path_factory.mktemp("vllm")) as address:
        yield address


@pytest.fixture(scope="module")
def found(url: str) -> Prefix:
    return kvlab.prefix(
        url,
        rounds=2,
        warm=2,
        prefix_tokens=(128, 512, 896),
        block_size=True,
        salts=True,
        churn=True,
        churn_tokens=320,
        most_requests=80,
        most_seconds=600.0,
    )


def test_the_block_size_is_found(found: Prefix) -> None:
    block = found.block
    assert block is not None
    assert (block.block_size, block.first_hit_tokens, block.stated_block_size, block.verdict) == (32, 32, 32, "agrees")
    told = {probe.shared_tokens: probe.cached_tokens for probe in block.probes}
    assert (told[31], told[32], told[33]) == (0, 32, 32)


def test_salts_are_respected(found: Prefix) -> None:
    assert found.salts is not None
    assert found.salts.verdict == "isolated"


def test_the_counters_agree_to_the_token(found: Prefix) -> None:
    assert {row.part for row in found.counters} == {"cold and warm", "lengths", "block size", "salts", "churn"}
    assert {row.verdict for row in found.counters} == {"agrees"}


def test_the_pools_end_is_where_the_pool_ends(found: Prefix) -> None:
    """A prompt of 328 tokens holds 11 blocks, one of them in part: of 64, five prompts' ten whole blocks and more."""
    churn = found.churn
    assert churn is not None
    assert (churn.pool_tokens, churn.verdict) == (2080, "agrees")
    assert churn.held_tokens is not None
    assert churn.lost_tokens is not None
    assert churn.held_tokens <= 2080 <= churn.lost_tokens


def test_every_length_is_served_from_the_cache(found: Prefix) -> None:
    assert found.lengths is not None
    shares = [point.cached_share for point in found.lengths.points]
    assert shares == [1.0, 1.0, 1.0]
